"""`python -m flinknet`: the same as the command `flinknet`."""

from flinknet.cli import main

if __name__ == "__main__":
    main()
