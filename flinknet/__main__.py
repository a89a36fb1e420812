"""`python -m flinknet`, and what `spark-submit` starts: the command line."""

from __future__ import annotations

from flinknet.cli import main

if __name__ == "__main__":
    main()
