"""`python -m flinknet`, and what `spark-submit` starts: the command line.

FLINKNET=$(python -c 'import flinknet; print(flinknet.__path__[0])')
spark-submit --master URL "$FLINKNET/__main__.py" trace replay RUN
"""

from __future__ import annotations

import sys
from pathlib import Path

# A script's directory is searched first, and ours has modules with the names of others.
sys.path[:] = [each for each in sys.path if not each or Path(each) != Path(__file__).parent]

from flinknet.cli import main  # noqa: E402

if __name__ == "__main__":
    main()
