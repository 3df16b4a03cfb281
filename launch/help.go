package main

const usageText = `launch -n WORKERS [flags] [--] command [arguments]
launch -n WORKERS [flags] "command with shell syntax"`

const description = `Examples:

  two workers and two servers on this machine
    launch -n 2 -s 2 -- go run ./examples/cifar10

  four workers on the hosts of a file, the current folder copied to each first
    launch -n 4 -s 2 -H hosts --sync-dst-dir /home/me/job ./cifar10 --epochs 5

  what is wrong with these hosts?
    launch -n 4 -H hosts --sync-dst-dir /home/me/job --check

  how would the keys of a checkpoint lie on four servers?
    launch ctl plan --servers 4 checkpoints/step-00001000/store.safetensors

The workers run the command, without a shell if it is several words. A single word with
spaces or shell characters runs in /bin/sh. Flags of launch stand before the command.
A local "go run" is built once, and every worker runs the program itself.

Hosts file: one host a line, in the order that gives the ranks; # begins a comment.
    d1
    me@10.0.0.7:2222
    d2 slots=4
Workers fill the slots in the file's order; a host without slots= has one, and workers
beyond the last slot go round over those hosts. So without slots, worker i runs on host
i mod H. Server i runs on host i mod H, whatever the slots. A rank keeps its host when
the job is started again.

Every process finds the job in its environment: DMLC_ROLE, DMLC_PS_ROOT_URI,
DMLC_PS_ROOT_PORT, DMLC_NUM_WORKER, DMLC_NUM_SERVER, DMLC_NODE_HOST, DMLC_TASK_ID and
PARAGON_* (among them a secret, which no command line and no log shows, and with --tls a
certificate, by which processes know each other between hosts). Over ssh a
process has the environment of a plain ssh command; OMP_NUM_THREADS, KMP_AFFINITY,
LD_LIBRARY_PATH, GOMAXPROCS, GOMEMLIMIT and GODEBUG are passed on where set, others with --env.
Without --sync-dst-dir the command runs in a folder of the same name as the current one.

Exit code: that of the first process that failed (128+n for signal n), 130 after Ctrl-C,
2 for a wrong command line, 1 if the job could not be started, else 0. After Ctrl-C the
workers have --stop-timeout to save their state; a second Ctrl-C kills all at once.`
