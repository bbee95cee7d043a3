"""`validators`: the continuous validation of what was applied."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from dm.config.scalar import duration, one_of, size, whole
from dm.config.section import Section

ValidationMode = Literal["none", "fast", "full"]


class ValidatorConfig(Section):
    """One entry of `validators`."""

    place: ClassVar = "under `validators`"
    unset_values: ClassVar = {
        "mode": ("",),
        **dict.fromkeys(("worker-count", "batch-query-size", "max-pending-row-count"), ("0",)),
        **dict.fromkeys(("validate-interval", "check-interval", "row-error-delay", "meta-flush-interval"), ("0s", "0")),
        "max-pending-row-size": ("",),
    }

    mode: Annotated[ValidationMode, one_of(ValidationMode, "config-validation-mode")] = "none"
    worker_count: Annotated[int, whole(1, 1024)] = 4
    validate_interval: Annotated[float, duration(1e-9)] = 10.0  # seconds
    check_interval: Annotated[float, duration(1e-9)] = 5.0
    row_error_delay: Annotated[float, duration()] = 1800.0
    meta_flush_interval: Annotated[float, duration(1e-9)] = 300.0
    batch_query_size: Annotated[int, whole(1)] = 100
    max_pending_row_size: Annotated[int, size()] = 500 << 20  # bytes
    max_pending_row_count: Annotated[int, whole(1)] = (1 << 31) - 1
