"""The synchronous SDK, made of `_async` by `unasync.py`."""
