"""Output for users: terminal tables, plots and live views, the HTML page, files of results.

A *_console prints the findings of one command:

    bench                   a bench, with bench_words, checkpoint_table, warnings and their
                            warning_lines, and reference_table: published numbers next to it;
                            console: draws all of them, from the
                            parts of page_parts
    live                    runs while they go on, for programs, too; prometheus: for that
    channels_console, config_console, demo_console, doctor_console    the other modes of bench, and
                            doctor; demos: the outcome of each
    comparison              configurations compared, with comparison_texts, and for
                            other programs comparison_markdown, comparison_junit
    from_trace              a bench of a recorded run; peer_console: one end of which is Flink's
    replay_console          a replay: replay_headline, the answer in the six lines of headline;
                            model_error (how far it can be trusted), observed_tables and
                            small_plots (what was observed), settings_in_words, advice_lines and
                            trade_words (what was predicted; gain and price of a setting, also for a
                            bench); recording_lines: what the
                            runs were put together from, and what was lost
    job_console             a job, and its latency markers; job_answer_console: a job in a replay
    trace_console, tap_console, import_console    a trace, and how it came to be; watch_console:
                            while it does

and with these, any of them is written:

    page                    one HTML page, described by page_parts and charts;
                            job_page: a job; places: the six places of data, under a slider
    replay_page             a replay in such parts; observed_page: its observed figures
    plot                    the main chart of a page, or of a replay, as a picture
    notebook_view           what a cell of a notebook shows
    export                  results as JSON; csv_rows: runs, replays and latencies as CSV
    plain_text              text that a terminal can take

A figure that no result has yet is computed where the result is made (`replay`, `runtime.cluster`)
and gets a field in `results`; here it only gets its column.
"""
