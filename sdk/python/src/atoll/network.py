"""What a sandbox may reach, and the secrets that go along. Rules are text, as the server writes and reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

NetworkMode = Literal["rules", "none"]


def words(of: Any, *names: str) -> None:
    """Makes tuples of lists. One word in place of a list is a mistake, and not a list of its letters."""
    for name in names:
        value = getattr(of, name)
        if isinstance(value, str):
            raise TypeError(f"{type(of).__name__}.{name} is a list: write [{value!r}]")
        object.__setattr__(of, name, tuple(value))


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkBudgets:
    """How much may pass in the whole life of a sandbox. What is not said is not bounded."""

    requests_max: int | None = None
    bytes_max: int | None = None
    requests_per_host_max: int | None = None
    bytes_per_host_max: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSecret:
    """A secret of the server, and what becomes of it: either `at` and `used_as`, or `file`.

    `at` are the hosts that get it, as in `https://api.github.com`. `used_as` is where in a request it is put: `bearer`,
    `basic:USER`, `header:NAME` or `query:NAME`. `env` is the variable inside that holds a placeholder for it. `file` is
    a path inside that has the value itself: whatever runs there can read it and send it on.
    """

    name: str
    at: Sequence[str] = ()
    used_as: str | None = field(default=None, metadata={"wire": "as"})
    env: str | None = None
    file: str | None = None

    def __post_init__(self) -> None:
        words(self, "at")


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkPolicy:
    """What a sandbox may reach.

    A rule is `[PROTOCOL://][METHOD[,METHOD]@]HOST[:PORT[,PORT]][/PATH]`. The most precise one decides; among equally
    precise ones `deny` comes before `ask`, and `ask` before `allow` and `presets`. What no rule is about is refused.
    """

    mode: NetworkMode = "rules"
    presets: Sequence[str] = ()
    allow: Sequence[str] = ()
    ask: Sequence[str] = ()
    deny: Sequence[str] = ()
    explain: bool = True
    ipv6: bool = True
    proxy_variables: bool = False
    budgets: NetworkBudgets = NetworkBudgets()
    secrets: Sequence[NetworkSecret] = ()

    def __post_init__(self) -> None:
        words(self, "presets", "allow", "ask", "deny", "secrets")


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    """A secret, without its value."""

    name: str
    created_at: datetime
    updated_at: datetime
