"""flinknet: Flink's credit-based network stack, shown, measured and predicted."""

__version__ = "0.1.0"
