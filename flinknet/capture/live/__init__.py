"""The part that a tap and a live capture share: a recording that grows while it is watched.

`session` keeps the run directory, names of jobs (`places`) and the trigger, `meter` makes the data
for the screen and the result, `rest_watch` runs the process that queries the JobManager.
"""
