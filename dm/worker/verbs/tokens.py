"""`token`: who may ask through a port."""

from __future__ import annotations

from dm.clock import SystemClock
from dm.verbs.declaration import Permission
from dm.verbs.tokens import CreateToken, ListTokens, RevokeToken
from dm.worker.access import NamedTokens
from dm.worker.verb_work import Answer, Means, VerbWork, does


class TokenVerbs(VerbWork):
    """Writes the file of tokens; the ports read it when it has changed."""

    def __init__(self, means: Means) -> None:
        super().__init__(means)
        self._tokens = NamedTokens(means.supervisor.home.tokens)

    @does(CreateToken)
    def create(self, asked: CreateToken) -> Answer:
        """The token is in the answer, and nowhere else."""
        now = SystemClock().time()
        token = self._tokens.create(asked.bearer, Permission(asked.allowed), now, asked.certificate)
        return {"bearer": asked.bearer, "token": token}

    @does(ListTokens)
    def listed(self, _asked: ListTokens) -> Answer:
        """Names and permissions."""
        return {
            "tokens": [
                {
                    "bearer": each.name, "permission": each.permission.value, "created": each.created,
                    "certificate": each.value if each.proof == "certificate" else "",
                }
                for each in self._tokens.listed()
            ]
        }  # fmt: skip

    @does(RevokeToken)
    def revoke(self, asked: RevokeToken) -> Answer:
        """From the next request on."""
        self._tokens.revoke(asked.bearer)
        return {}
