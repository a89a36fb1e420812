"""flinknet: what Flink's credit-based network stack does between two tasks, shown, measured and predicted."""

__version__ = "0.1.0"
