"""What a schema is made with, where servers call utf8mb3 in different ways."""

from __future__ import annotations

import pytest

from dm.loader.target_tables import schema_default

OLDER = ("utf8_general_ci", "utf8_unicode_ci", "utf8mb4_bin")
NEWER = ("utf8mb3_general_ci", "utf8mb3_unicode_ci", "utf8mb4_bin")


@pytest.mark.parametrize(
    ("charset", "collation", "known", "made"),
    [
        ("utf8", "utf8_unicode_ci", NEWER, "CHARACTER SET utf8mb3 COLLATE utf8mb3_unicode_ci"),
        ("utf8mb3", "utf8mb3_unicode_ci", OLDER, "CHARACTER SET utf8mb3 COLLATE utf8_unicode_ci"),
        ("utf8", "utf8_unicode_ci", OLDER, "CHARACTER SET utf8mb3 COLLATE utf8_unicode_ci"),
        ("utf8mb4", "utf8mb4_bin", OLDER, "CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"),
        ("utf8mb4", "utf8mb4_0900_ai_ci", OLDER, "CHARACTER SET utf8mb4"),
    ],
)
def test_a_schema_has_the_collation_by_the_name_of_the_target(
    charset: str, collation: str, known: tuple[str, ...], made: str
) -> None:
    assert schema_default(charset, collation, known) == made
