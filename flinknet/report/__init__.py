"""What users read: terminal tables, plots and live views, the HTML page, files of results.

A figure that no result has yet is computed where the result is made (`replay`, `runtime.cluster`)
and gets a field in `results`; here it only gets its column.
"""
