"""Output for users: terminal tables, plots and live views, the HTML page, files of results.

A view is described once, and drawn on a terminal, on a page, in Markdown:

    page_parts              the vocabulary: sentences, texts, tables, sections, views
    charts                  charts, and parts with sliders
    console                 draws a view on a terminal: headline, then tables
    page                    draws it in one HTML file, with the scripts of the folder page; and
                            tables, charts and pages in cells of a notebook
    plot                    draws its main chart as a picture
    plain_text              text that a terminal can take, and small plots in characters

The views of the commands:

    bench                   a bench, with bench_words: its sentences; places: the six places of data
    bench_find              the highest rate that keeps a limit
    bench_modes             configuration, channels, peers and published numbers
    from_trace              a bench of a recorded run
    live                    runs while they go on, for programs (Prometheus), too
    demos                   the demos
    comparison              configurations compared, with comparison_texts; comparison_files: for
                            other programs
    replay                  a replay: replay_headline, the answer in six lines; observed and
                            observed_tables: observed figures; predicted and trade_words:
                            predicted ones; advice, and how far to trust it
    job                     a job, its latency markers, and a cluster
    trace_console           a trace; tap_console, recordings: how it came to be

and with these, any of them is written:

    warning_lines           reasons to doubt a result
    export                  results as JSON and CSV

A figure that no result has yet is computed where the result is made (`replay`, `runtime.cluster`)
and gets a field in `results`, and a line in `results.figures`; here it only gets its column.
"""
