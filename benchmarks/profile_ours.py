"""`python -m benchmarks.profile_ours MODULE`: another measuring program, with its CPU booked by thread and module."""

from __future__ import annotations

import importlib
import json
import sys

from benchmarks.thread_profiles import ThreadProfiles


def main() -> None:
    """Run the module's `main`, which reads its order and prints its answer; then print what was booked."""
    module = importlib.import_module(sys.argv[1])
    profiles = ThreadProfiles()
    profiles.start()
    module.main()
    print(json.dumps([[*place, seconds] for place, seconds in profiles.stop().items()]))


if __name__ == "__main__":
    main()
