"""Recorded traces in, answers out, computed by Spark.

Here live the Spark session and the Java under it, the data source `flinknet` for SQL and notebooks,
one file for each question to a recorded run, and the predictions of `predict` for all settings that
are asked for. Events never pass through the driver: it makes work units (a file and some of its
blocks, or a candidate setting), executors open the files themselves, and small tables come back.
pyspark is imported inside functions only, so that importing this room costs nothing. Printing lives
in `report`, the traces themselves in `trace`.
"""
