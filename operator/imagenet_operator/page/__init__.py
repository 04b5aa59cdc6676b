"""The page of a job: `Contents` in, one HTML document out.

Nothing here reads a file of a job, a cluster or a clock. `cli.report_page` collects what the page
shows, and writes it. The document needs no network, and no program but its own.
"""
