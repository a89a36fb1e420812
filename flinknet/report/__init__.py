"""What users read: terminal tables, plots and live views, the HTML page, files of results.

Nothing is computed here beyond what a table shows; what comes in is a result or its JSON.
"""
