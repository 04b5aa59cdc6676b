"""The Python client: what a program or a person does with jobs, on a cluster and on this machine.

`imagenetjob` is its public name. The verbs of `imagenetctl` call it, so both do the same.

- `interface` has the methods of every client, `errors` what they raise.
- `cluster` implements them with the API server, `local` with a working directory.
- `blocking` runs either on a loop in a thread, for programs that do not await.
- `submission` judges a job before it is created, `logs` follows the logs of its pods.
"""
