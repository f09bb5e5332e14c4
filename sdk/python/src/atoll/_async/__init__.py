"""The asynchronous SDK. `_sync` is made of this folder by `unasync.py`."""
