package options

// usageText and description are what launch --help says besides the flags.
const usageText = `launch -n WORKERS [flags] [--] command [arguments]
launch -n WORKERS [flags] "command with shell syntax"`

const description = `Examples:

  two workers and two servers on this machine
    launch -n 2 -s 2 -- go run ./examples/cifar10

  four workers on the hosts of a file, the current folder copied to each first
    launch -n 4 -s 2 -H hosts --sync-dst-dir /home/me/job ./cifar10 --epochs 5

  hosts may join and leave while it runs, each prepared before its worker starts
    launch -n 2 -H hosts --elastic-training-enabled --prepare-data "./fetch.sh" ./cifar10
    echo d3 >> host_worker        or: launch ctl add --wait d3
    launch ctl status             and: launch ctl why, launch top

  the job survives the loss of a worker or a server, and is restarted if it fails
    launch -n 4 -s 3 --on-worker-loss shrink --min-workers 2 --backups 1 --restarts 3 \
       ./cifar10 --checkpoint-dir checkpoints

  on the nodes of a Slurm allocation, one worker for each task; as a batch job
    salloc --nodes=4 launch -s 2 -- ./cifar10
    launch slurm script --nodes 4 --time 8:00:00 -s 2 -- ./cifar10 --checkpoint-dir ckpt > job.sh

  four hosts that dial in, where ssh does not reach them
    launch -n 4 --launcher agents --listen :4000 --secret-file secret ./cifar10
    launch agent --join 10.0.0.5:4000 --secret-file secret    on each; see launch agent --help

  the instances of a cloud that have a tag
    launch -n 4 --elastic-training-enabled --hosts-command "deploy/aws/hosts paragon=train" ./cifar10

  manifests for Kubernetes
    launch k8s render --image train:1 -n 4 -s 2 --gpus 1 -- /app/train    see: launch k8s render --help

  what is wrong with these hosts?
    launch -n 4 -H hosts --sync-dst-dir /home/me/job --check

  which learning rate is best?
    launch tune study.yaml           see: launch tune --help

  how would the keys of a checkpoint be placed on four servers?
    launch ctl plan --servers 4 checkpoints/step-00001000/store.safetensors

Other commands, each with a --help of its own: launch ctl and launch top (running jobs), launch
tune (searches), launch data (data sets of images), launch slurm, launch k8s and launch image (batch
scripts, manifests, container images), launch agent (a host that dials in).

The workers run the command, without a shell if it is several words. A single word with
spaces or shell characters runs in /bin/sh. Flags of launch come before the command.
A local "go run" is built once, and every worker runs the program itself.

Hosts file: one host a line, in the order that gives the ranks; # begins a comment.
    d1
    me@10.0.0.7:2222
    d2 slots=4 gpus=2 cpus=16
slots= is the number of workers on a host. gpus= is how many of its GPUs the workers may
use, the first ones in the order of nvidia-smi (0: none); without --gpus each worker sees all
of these. cpus= is how many of its processors the job's processes on it use. Workers
fill the slots in the order of the file. A host without slots= has one slot, and workers
beyond the last slot go round over these hosts. So without slots= worker i runs on host
i mod H. Server i runs on host i mod H, whatever the slots. A rank keeps its host when the
job is started again.

In a Slurm allocation the hosts are its nodes, in the order of the nodelist, and -n is the
number of its tasks. -H FILE and --launcher local override that. See: launch slurm --help.

With --launcher agents the hosts are those whose agents dial in: launch prints the command for
them, waits for --agents of them (else until they have slots for all workers) for at most
--start-timeout, and begins. Ranks follow the agents' names, n2 before n10. A connection that
breaks and is restored a second before --host-timeout costs nothing; a host that is lost takes
part again when its agent dials in again. In an elastic job the host of an agent that dials in
later is put into host_worker. The command runs in a folder with the path of the current one,
which has to be on every host. See docs/how-to/agents.md. With --launcher mpi the agents are started
by mpirun: docs/how-to/mpi.md.

With --elastic-training-enabled the file host_worker in the current folder names the
workers' hosts, as a hosts file does. An edit is seen within a second and takes effect at
the next step. host_worker_log gets a line for each host that joined or left:
    SEQ ADDED|REMOVED HOST NANOSECONDS
A host that cannot join (ssh, --prepare-data, --join-timeout) is FAILED, launch ctl status
shows the reason, and the job goes on. To try it again: launch ctl add HOST. The workers of
a removed host take part up to the next step and end with code 0; its servers stay. A worker
that gets SIGTERM from outside the launcher leaves in the same way, if the program supports
it (worker.FitConfig.Leave). When the last worker of a host leaves, the host leaves. If too
few workers would be left, all stop.

With --hosts-command CMD the hosts are those that CMD prints, every 5 s, as JSON lines:
    {"host":"d3","slots":2,"gpus":1,"state":"running"}
Without -H launch waits until they have slots for all workers. An elastic job follows the list:
a host that is running is added; a host that stops or is no longer named is removed. A command that
fails removes nothing, and no answer removes more than half of the hosts (--hosts-force). See
docs/how-to/clouds.md. --hosts-url URL is the same for a list on a web server.

With --listen ADDRESS --secret-file FILE launch ctl and launch top work from other machines:
    launch ctl --join head:4000 --secret-file FILE status

A worker is lost when its process or its host dies. --on-worker-loss says what follows.
shrink: the others go on, if at least --min-workers are left. wait: training stops at the
next step until another worker has joined. fail: the job fails. With shrink and wait a lost
worker is started again on its host after 1 s, then 2 s, 4 s and so on, at most --rejoin
times in a row. With shrink and --rejoin 0 the job stays smaller.
Before the job is complete, the other workers wait for it. With --backups 1 a server may be
lost, too. A scheduler that dies is started again at once; training continues meanwhile. A
job that fails nevertheless is started again, --restarts times, with PARAGON_RESUME=1 in
the environment: worker.Fit then resumes from the newest intact checkpoint of this job, and
from no other run's. Nothing is started again after an error that no restart can mend: a
wrong flag, a missing file, a folder with another run's checkpoints, a checkpoint of
another model. Programs say so by kvstore.Final.

With --gpus each worker sees its own GPUs of its host, by UUID in CUDA_VISIBLE_DEVICES (-1
for none), and calls them cuda:0, cuda:1 and so on. A host with too few GPUs is an error.

Every process finds the job in its environment: DMLC_ROLE, DMLC_PS_ROOT_URI,
DMLC_PS_ROOT_PORT, DMLC_NUM_WORKER, DMLC_NUM_SERVER, DMLC_NODE_HOST, DMLC_TASK_ID and
PARAGON_*. Among these is a secret, which appears on no command line and in no log, and with
--tls a certificate, by which processes on different hosts authenticate each other. Over ssh
a process has the environment of a plain ssh command; OMP_NUM_THREADS, KMP_AFFINITY,
LD_LIBRARY_PATH, GOMAXPROCS, GOMEMLIMIT, GODEBUG and PARAGON_RESUME are passed on if set,
others with --env: for example --env PARAGON_HOST_SUMS=off, so that the workers of a host do
not add up their gradients before one push leaves it, or --env PARAGON_CPU=avx2.
Without --sync-dst-dir the command runs in a folder with the path of the current one.

A job has at most 5000 workers and servers. A job that exceeds the limits of this machine
(open files, processes) is refused before anything starts.

With --result FILE launch writes how the job ended, as JSON: the exit code, the failure and
the process to blame as codes with fields, every process, lost hosts, membership changes, and
the last metrics: a line of worker 0 such as "accuracy=0.91 loss=0.3 step=5".
FILE appears when it is complete; an older FILE is removed at the start.

With --output json the standard output has a line of JSON for each line that a process
printed, such as
    {"role":"worker","rank":0,"stream":"stdout","text":"accuracy=0.91 step=3"}
and the standard error has the messages of launch. A line above 64 KiB comes in pieces, all
but the last with "more":true.

With --log-format json (or PARAGON_LOG_FORMAT=json) the log is one JSON object a line on the
standard error, from launch, scheduler, servers and workers alike: time, level, msg, job,
role, rank, process, pid, host, and an event code for what matters (docs/reference/log-events.md).
What else a process prints there is wrapped in such a line. With --output json a JSON line
of a process comes as "record" in place of "text".

Exit code: that of the first process that failed (128+n for signal n), 130 after
Ctrl-C, 2 for a wrong command line, 1 if the job could not be started or the standard output
could not be written, else 0. A process that the job survived does not count, unless its
loss made the job fail. After Ctrl-C the workers have --stop-timeout to save their state; a
second Ctrl-C kills all processes at once. SIGUSR1 (or launch ctl stop) stops the job with a
checkpoint: all workers write one after a step that they agree on, and end. Launch then ends
with 85, and with PARAGON_RESUME=1 the next start goes on from there; without a checkpoint
within --checkpoint-timeout the job is stopped, and fails.`
