"""`imagenetctl dashboard`: the pages of jobs, live, for a browser on this machine.

`command` starts one process with one server. `server` admits requests and answers them, `readings`
reads the jobs for all viewers at once by the Client, and `pages` writes HTML from what was read,
with the sections of `page`. In the browser, live.js asks for the same page again, and changes what
differs.
"""
