"""What a request that is refused is answered: with our shape, and below `/api/v1` with DM's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

from starlette.responses import JSONResponse

from dm.errors import CATALOGUE, DMError
from dm.unit import JSON

PATHS_OF_DM: Final = "/api/v1/"
INVALID: Final = CATALOGUE["openapi-request-invalid"].code


def refusal(path: str, error: DMError, status: int, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """The answer to a request for this path."""
    if path.startswith(PATHS_OF_DM):
        return JSONResponse(dm_error(error), status, headers)
    return JSONResponse({"result": False, "msg": str(error), "error": cast("JSON", error.report())}, status, headers)


def dm_error(error: DMError) -> dict[str, JSON]:
    """An error in the shape of DM's OpenAPI."""
    return {"error_msg": str(error), "error_code": error.code}


def malformed(path: str, problem: str, status: int) -> JSONResponse:
    """The answer to what is no request that can be understood."""
    if path.startswith(PATHS_OF_DM):
        return JSONResponse({"error_msg": problem, "error_code": INVALID}, 400 if status == 422 else status)
    return JSONResponse({"result": False, "msg": problem}, status)
