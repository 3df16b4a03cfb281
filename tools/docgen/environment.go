package main

import (
	"fmt"
	"strings"
)

// An environmentVariable is one that a program of Paragon reads.
type environmentVariable struct {
	name    string
	meaning string
	readBy  string

	// unset is what holds where it is not set.
	unset string
}

const (
	everyProgram = "all programs"
	joining      = "programs that join a job: workers (`kvstore.Create`), `launch role`"
	launchItself = "`launch`"
	worker       = "workers"
	scheduler    = "the scheduler"
)

// variables is the table of environment variables, by the groups of docs/reference/environment.md.
// A test holds it against the source.
var variables = map[string][]environmentVariable{
	// What people set.
	"user": {
		{"PARAGON_LOG", "least level of the log: debug, info, warn or error", everyProgram, "info"},
		{"PS_VERBOSE", "ps-lite's: 1 and more is debug, unless `PARAGON_LOG` is set", everyProgram, "info"},
		{"PARAGON_LOG_FORMAT", "form of the log: text or json, see [log events](log-events.md)", everyProgram, "text"},
		{"PARAGON_CPU", "path of the numeric code: portable, avx2, avx512, amx or neon; after a comma how bfloat16 is multiplied, such as avx512,float32", "programs that compute (`nn`, `kvstore`)", "the fastest that the CPU has"},
		{"PARAGON_TRANSPORT", "how processes of one host reach each other: auto, unix or tcp", joining, "auto: shared memory and Unix sockets within a host, TCP between hosts"},
		{"PARAGON_HOST_SUMS", "whether the workers of a host add their gradients up before one push leaves it: auto, on or off", worker, "auto: for shards whose server is on another host"},
		{"PARAGON_SSH", "the ssh client with its options, as words of a shell; `--ssh-command` overrides it", "`launch`, `tune.Jobs`", "ssh"},
		{"PARAGON_CONTROL_ADDRESS", "the launcher to ask, in place of `--join`", "`launch ctl`, `launch top`", "the job of this machine"},
		{"PARAGON_SECRET_FILE", "file with that launcher's secret, in place of `--secret-file`", "`launch ctl`, `launch top`", "none"},
		{"PARAGON_JOIN_SECRET", "the secret itself that a launcher and its agents share, in place of `--secret-file`", "`launch`, `launch agent`, `launch ctl`, `launch top`", "none"},
		{"PARAGON_PROCESS_METRICS", "host:port of this process's own endpoint for Prometheus; port 0 takes a free one. `launch --process-metrics` sets it", joining, "no endpoint"},
		{"PARAGON_CIFAR10", "CIFAR-10, as `--data`", "examples/cifar10", "synthetic images"},
		{"PARAGON_IMAGENET", "folder or URL of images with train and val, as `--data`", "examples/imagenet", "none: `--data` is needed"},
		{"PARAGON_RESUME", "1: go on from the newest checkpoint, as `--resume`; `launch` sets it when it starts a job again (`--restarts`, a requeue). With `--restarts`, `worker.Fit` takes only checkpoints of the same run", "workers: examples/cifar10, examples/imagenet, and your program if it looks", "start anew"},
		{"PARAGON_HEARTBEAT", "time between heartbeats, such as 1s", joining, "1s"},
		{"PARAGON_LEASE", "silence after which a node is lost, such as 10s", joining, "10s"},
		{"PARAGON_START_TIMEOUT", "how long the start may take, such as 5m; `--start-timeout` sets it", joining, "5m"},
		{"PARAGON_LAUNCH", "path of the program `launch`", "`paragon` in Python", "the one in the package"},
		{"SOURCE_DATE_EPOCH", "time of the files in a wheel, in seconds since 1970", "`make wheel`", "1980-01-01"},
	},
	// What launch sets for the processes of a job.
	"job": {
		{"DMLC_ROLE", "worker, server or scheduler", joining, "no job: a job of one worker in this process"},
		{"DMLC_PS_ROOT_URI", "host of the scheduler", joining, "an error in a job"},
		{"DMLC_PS_ROOT_PORT", "port of the scheduler", joining, "an error in a job"},
		{"DMLC_NUM_WORKER", "number of workers", joining, "an error in a job"},
		{"DMLC_NUM_SERVER", "number of servers", joining, "an error in a job"},
		{"DMLC_NODE_HOST", "this host, as in the hosts file; if it is an IP address, servers listen on it", joining, "the host's name"},
		{"DMLC_INTERFACE", "network interface on whose address servers listen (`--interface`)", joining, "all addresses"},
		{"DMLC_TASK_ID", "number of this process within its role, as programs for MXNet and ps-lite read it", "your program", "not set"},
		{"PARAGON_LISTEN", "address that servers listen on, host:port; overrides the two above", joining, "a free port"},
		{"PARAGON_RANK", "wanted rank; -1: any", joining, "any"},
		{"PARAGON_JOB", "ID of the job", joining + "; `launch` inside a job", "empty"},
		{"PARAGON_RUN", "ID of the run: that of the job, and of those as which `launch --restarts` starts it again", worker, "empty: no run"},
		{"PARAGON_RUN_AGAIN", "1: `launch --restarts` has started the job again, and PARAGON_RESUME was not set from the beginning", worker, "0"},
		{"PARAGON_EXIT_REPORT", "file into which the process writes that no restart can mend its error (`kvstore.Final`)", worker, "nobody is told"},
		{"PARAGON_PROCESS", "number that `launch` gave this process, never used again in the job", joining + ", the log", "0: started by hand"},
		{"PARAGON_MEMBER_PROCESS", "set by `paragon` in Python for the processes that it starts: the number of the process that is the job's member, and a hash of the job's variables. `init` in such a process is refused", "`paragon` in Python", "this process may join"},
		{"PARAGON_SECRET", "secret of the job, in hexadecimal digits", joining, "none: processes are not authenticated"},
		{"PARAGON_IDENTITY", "certificate and key of this process", joining, "no TLS between hosts"},
		{"PARAGON_HOSTS", "where nodes are expected: worker/0/d1,server/0/d1", joining, "anywhere"},
		{"PARAGON_JOIN", "1: the job may be running already", joining, "the job is being formed"},
		{"PARAGON_STATE", "journal of the scheduler: a file, or etcd://host:port/prefix (`--state`)", scheduler, "no journal"},
		{"PARAGON_ELASTIC", "1: workers may join and leave (`--elastic-training-enabled`)", scheduler, "0"},
		{"PARAGON_ON_WORKER_LOSS", "shrink, wait or fail (`--on-worker-loss`)", scheduler, "shrink if elastic, else fail"},
		{"PARAGON_MIN_WORKERS", "with fewer workers the job fails (`--min-workers`)", scheduler + "; workers with `PARAGON_ADAPT_WORKERS`", "1"},
		{"PARAGON_MAX_WORKERS", "more workers may not join (`--max-workers`)", scheduler + "; workers with `PARAGON_ADAPT_WORKERS`", "no limit"},
		{"PARAGON_ADAPT_WORKERS", "1: the number of workers follows what rank 0 asks for (`--adapt-workers`)", scheduler + ", workers", "0"},
		{"PARAGON_JOIN_TIMEOUT", "how long a joining worker may take until it is ready, such as 5m (`--join-timeout`)", scheduler, "5m"},
		{"PARAGON_REJOIN_TIMEOUT", "how long `--on-worker-loss wait` waits, such as 5m", scheduler, "5m"},
		{"PARAGON_REJOIN", "how often a worker that was lost is started again (`--rejoin`)", scheduler, "0"},
		{"PARAGON_BACKUPS", "0 or 1: backups of each shard (`--backups`)", scheduler, "0"},
		{"PARAGON_METRICS_LISTEN", "address of the job's metrics, host:port (`--metrics-listen`)", scheduler, "not served"},
		{"PARAGON_RESTARTS", "how often `launch` has started the job again, for its metrics", scheduler, "0"},
		{"PARAGON_REPORT_FD", "number of the open file into which the scheduler writes reports to its launcher", "`launch role`", "no reports"},
		{"PARAGON_PAGE_URL", "address of the job's live page, for the links of `launch ctl page`", "`launch ctl page`, through the job's record", "no page"},
		{"PARAGON_PAGE_KEY", "key by which `launch ctl page` makes links to that page", "`launch ctl page`, through the job's record", "no page"},
		{"PARAGON_TUNE_ADDRESS", "where the search listens for its trial's reports: unix:PATH or tcp:HOST:PORT", "processes of a trial (`tune.Run`, `launch slot`)", "no trial"},
		{"PARAGON_TUNE_TOKEN", "by which a trial authenticates to its search", "processes of a trial", "no trial"},
	},
	"gpu": {
		{"CUDA_VISIBLE_DEVICES", "GPUs that a process sees; `launch --gpus` sets it, by UUIDs, -1 for none", "workers, `launch`, `gpucheck`, GPU telemetry", "all"},
		{"PARAGON_CUDA_PATH", "the driver's library, libcuda, or the folder it is in", worker, "where the system has it"},
		{"PARAGON_NVIDIA_ML_PATH", "the same for libnvidia-ml", worker, "where the system has it"},
		{"PARAGON_CUBLASLT_PATH", "the same for libcublasLt", worker, "the system's, PyTorch's or conda's"},
		{"PARAGON_CUBLAS_PATH", "the same for libcublas", worker, "the system's, PyTorch's or conda's"},
		{"PARAGON_NVRTC_PATH", "the same for libnvrtc", worker, "the system's, PyTorch's or conda's"},
		{"PARAGON_CUDNN_PATH", "the same for libcudnn", worker, "the system's, PyTorch's or conda's"},
		{"PARAGON_NCCL_PATH", "the same for libnccl", worker, "the system's, PyTorch's or conda's"},
		{"LD_LIBRARY_PATH", "folders in which these libraries are looked for first; passed on to processes on other hosts", "workers, `launch`", "the system's"},
		{"CUDA_HOME", "an installation of CUDA in which they are looked for", worker, "none"},
		{"CUDA_PATH", "the same", worker, "none"},
		{"CONDA_PREFIX", "an environment of conda in which they are looked for", worker, "none"},
		{"VIRTUAL_ENV", "an environment of Python in which they are looked for", worker, "none"},
		{"PYTHONPATH", "folders of Python packages in which they are looked for", worker, "none"},
		{"PATH", "the Python interpreters there tell of further folders of packages", worker, "none"},
		{"CPATH", "folders with header files of these libraries, against which the calls are held", "tests", "those of the system"},
	},
	"standard": {
		{"GOROOT", "where Go is installed: its standard library's source is the text to train on without `--text`", "examples/gpt", "what `go env GOROOT` says"},
		{"HOME", "`~/.paragon` holds the records of jobs where there is no `XDG_RUNTIME_DIR`, `~/.cache/paragon` copies of `launch` on hosts and choices of GPU kernels", "`launch`, workers", "an error where it is needed"},
		{"XDG_RUNTIME_DIR", "the records of jobs are in its folder paragon/jobs", launchItself, "`~/.paragon/jobs`"},
		{"NO_COLOR", "no colours in the terminal", "`launch`, `launch top`", "colours"},
		{"TERM", "dumb: no line that is written over", launchItself, "as the terminal is"},
		{"SSH_CONNECTION", "by which a host that was reached by ssh knows its own address", "the agent of `launch`", "the host's name"},
		{"OMP_NUM_THREADS", "passed on to workers on other hosts", launchItself, "not set"},
		{"KMP_AFFINITY", "passed on to workers on other hosts", launchItself, "not set"},
		{"GOMAXPROCS", "passed on to processes on other hosts; threads of a Go program", "`launch`, all programs", "the host's cores, divided over the processes of the job there"},
		{"GOMEMLIMIT", "passed on to processes on other hosts", launchItself, "not set"},
		{"GODEBUG", "passed on to processes on other hosts", launchItself, "not set"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT", "collector of spans, in place of `--otel-endpoint`", launchItself, "none"},
		{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "the same with the path of spans", launchItself, "none"},
		{"OTEL_EXPORTER_OTLP_PROTOCOL", "grpc is refused", launchItself, "http/protobuf"},
		{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "grpc is refused", launchItself, "http/protobuf"},
		{"OTEL_TRACES_EXPORTER", "none: no spans are sent", launchItself, "otlp"},
		{"OTEL_SDK_DISABLED", "true: no spans are sent", launchItself, "false"},
		{"OTEL_SERVICE_NAME", "the service's name in the spans", launchItself, "paragon"},
		{"OTEL_RESOURCE_ATTRIBUTES", "further attributes of the spans' resource, as name=value,...; they take precedence over Paragon's own", launchItself, "none"},
		{"OTEL_EXPORTER_OTLP_HEADERS", "headers for the collector, such as its password", launchItself, "none"},
	},
	"slurm": {
		{"SLURM_JOB_ID", "there is an allocation of Slurm, and this is its number", launchItself, "no allocation"},
		{"SLURM_STEP_ID", "this process is in a step of srun: `--launcher slurm` must be given there", launchItself, "no step"},
		{"SLURM_JOB_NODELIST", "nodes of the allocation", launchItself, "an error in an allocation"},
		{"SLURM_TASKS_PER_NODE", "workers of each node", launchItself, "one"},
		{"SLURM_JOB_CPUS_PER_NODE", "processors of each node", "`launch`, `launch tune`", "not known"},
		{"SLURM_GPUS_ON_NODE", "GPUs of this node", "`launch tune`", "none"},
		{"SLURMD_NODENAME", "name of this node, by which its agent is called", "`launch agent`, `launch tune`", "the host's name"},
		{"SLURM_JOB_NUM_NODES", "number of nodes: a script of `launch slurm join` starts an agent on each", "the batch script", "an error"},
		{"SLURM_RESTART_COUNT", "1 and more: a script of `launch slurm script` runs again, and sets `PARAGON_RESUME`", "the batch script", "0"},
	},
	// Variables of the predecessors that are named in a warning.
	"unused": {
		{"MXNET_KVSTORE_BIGARRAY_BOUND", "the scheduler cuts and places arrays by bytes", "", ""},
		{"MXNET_KVSTORE_SLICE_THRESHOLD", "the scheduler cuts and places arrays by bytes", "", ""},
		{"MXNET_KVSTORE_REDUCTION_NTHREADS", "sums use vector instructions on the caller's thread", "", ""},
		{"MXNET_UPDATE_ON_KVSTORE", "`worker.Config.UpdateOnWorker`", "", ""},
		{"DMLC_PS_VAN_TYPE", "`PARAGON_TRANSPORT`", "", ""},
		{"PS_RESEND", "requests are repeated until they are answered", "", ""},
		{"PS_RESEND_TIMEOUT", "requests are repeated until they are answered", "", ""},
		{"PS_HEARTBEAT_INTERVAL", "`PARAGON_HEARTBEAT`", "", ""},
		{"PS_HEARTBEAT_TIMEOUT", "`PARAGON_LEASE`", "", ""},
	},
	"test": {
		{"PARAGON_TEST_DATA", "folder with real data sets", "tests of `data`, the examples, `bench`", "such tests are skipped"},
		{"PARAGON_TEST_REQUIRE", "all: a test that lacks something fails", "tests", "it is skipped"},
		{"PARAGON_TEST_SLOW", "1: also tests that take long (`make slowtest`)", "tests", "they are skipped"},
		{"PARAGON_TEST_MODULES", "1: also tests that build every module from a release (`make testmodules`)", "tests of modules", "they are skipped"},
		{"PARAGON_TEST_CLUSTERS", "1: also tests that start clusters (`make testclusters`)", "tests of `launch`", "they are skipped"},
		{"PARAGON_TEST_DOCS", "1: also the commands of the documentation (`make testdocs`)", "tests of docs", "they are skipped"},
		{"PARAGON_TEST_GPU", "number of the GPU that tests of the build tag gpu run on", "tests, `gpucheck`", "0"},
		{"PARAGON_TEST_SCREENSHOTS", "folder for pictures of pages", "tests in Chromium", "no pictures"},
		{"PARAGON_TEST_TORCH", "no: only Python tests without torch; yes: only the others", "tests of Python", "all that the environment can run"},
		{"PARAGON_TEST_TRANSFORMERS", "path of a Python with torch, torchvision and transformers", "tests of weights from PyTorch in `worker`", "they are skipped"},
		{"PARAGON_TEST_WHEELS", "folder of a wheel to install", "tests of Python", "they are skipped"},
		{"PARAGON_TEST_MNIST", "path of the program `examples/mnist`", "tests of Python", "they are skipped"},
		{"PARAGON_METADATA_URL", "address of a stand-in for a cloud's metadata service", "`launch --spot`", "169.254.169.254"},
	},
}

// ofOthers are variables in the source that programs of Paragon only take away from the processes
// that they start, that belong to one test, or by which a program speaks to itself.
var ofOthers = []string{"PARAGON_TEST_INSTALLED", "PARAGON_AMXTEST_TRACED"}

// environment is the table of a group.
func environment(group string) (string, error) {
	rows, ok := variables[group]
	if !ok {
		return "", fmt.Errorf("there is no group %q", group)
	}
	var b strings.Builder
	if group == "unused" {
		b.WriteString("| variable | instead |\n| --- | --- |\n")
		for _, v := range rows {
			fmt.Fprintf(&b, "| `%s` | %s |\n", v.name, cell(v.meaning))
		}
		return b.String(), nil
	}
	b.WriteString("| variable | meaning | read by | if it is not set |\n| --- | --- | --- | --- |\n")
	for _, v := range rows {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", v.name, cell(v.meaning), cell(v.readBy), cell(v.unset))
	}
	return b.String(), nil
}
