package k8s

import (
	"reflect"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/launch/internal/command/options"
)

// k8sFlags are the flags of rendering itself.
func k8sFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "image", Usage: "image `NAME`, with launch in its PATH and the command"},
		&cli.StringFlag{Name: "name", Usage: "`NAME` of the job, and prefix of the names of all objects", Value: "paragon"},
		&cli.StringFlag{Name: "namespace", Usage: "`NAME` of the namespace", DefaultText: "kubectl's current namespace"},
		&cli.PathFlag{Name: secretFileFlag, Usage: "`FILE` with the secret that launch and its agents share; created if missing", DefaultText: "NAME.secret in paragon/k8s of your folder for settings, or ./" + oldSecretFile + " if it is there", TakesFile: true},
		&cli.BoolFlag{Name: "jobset", Usage: "print one JobSet in place of three Jobs and a Service", DisableDefaultText: true},
		&cli.StringFlag{Name: "kueue", Usage: "let Kueue start the job, by the LocalQueue `NAME`"},
		&cli.IntFlag{Name: "slots", Usage: "`NUMBER` of workers in each pod", Value: 1},
		&cli.StringFlag{Name: "cpus", Usage: "processors of each pod of workers: `AMOUNT` such as 8 or 500m, or none", DefaultText: "a request of 1 for each worker"},
		&cli.StringFlag{Name: "memory", Usage: "memory of each pod of workers: `AMOUNT` such as 32Gi, or none", DefaultText: "a request of 2Gi for each worker"},
		&cli.StringFlag{Name: "server-cpus", Usage: "processors of each server: `AMOUNT` or none", DefaultText: "a request of 500m"},
		&cli.StringFlag{Name: "server-memory", Usage: "memory of each server: `AMOUNT` or none", DefaultText: "a request of 1Gi"},
		&cli.StringSliceFlag{Name: "pvc", Usage: "mount a PersistentVolumeClaim in all pods: `CLAIM:/PATH[:ro]`; repeatable"},
		&cli.Int64Flag{Name: "user", Usage: "`NUMBER` of the user and group that the containers run as", Value: 65532},
		&cli.StringSliceFlag{Name: "node-selector", Usage: "only nodes with the label `KEY=VALUE`; repeatable"},
		&cli.StringSliceFlag{Name: "toleration", Usage: "also nodes with the taint `KEY[=VALUE][:EFFECT]`; repeatable"},
		&cli.DurationFlag{Name: "drain", Usage: "a pod that is evicted has `TIME` to leave the job", DefaultText: "20s, or 10s more than --stop-timeout"},
	}
}

// notInCluster are the flags of launch that a job on Kubernetes cannot have, and why.
var notInCluster = map[string]string{
	"hostfile":       "the hosts are the job's own pods; give their number with -n and -s",
	"launcher":       "each pod runs an agent",
	"agents":         "launch waits for all pods",
	"listen":         "launch listens at the port of the Service",
	"address-file":   "agents find launch by the Service",
	"sync-dst-dir":   "the pods' files are those of the image and of --pvc",
	"scheduler-host": "the scheduler has a pod of its own",
	"host-ip":        "each pod is reached at its own address",
	"interface":      "each pod is reached at its own address",
	"status-cert":    "the page is reached by kubectl port-forward",
	"status-key":     "the page is reached by kubectl port-forward",
	"ssh-command":    "there is no ssh between pods",
	"hosts-command":  "the hosts are the job's own pods; kubectl patch changes their number",
	"hosts-url":      "the hosts are the job's own pods; kubectl patch changes their number",
	"hosts-interval": "the hosts are the job's own pods; kubectl patch changes their number",
	"hosts-force":    "the hosts are the job's own pods; kubectl patch changes their number",
	"mpirun":         "each pod runs its own agent, without mpirun",
	"spot":           "the node is drained when it is taken back (a node termination handler does), and its pods leave then",
	"check":          "this machine is not in the cluster; kubectl apply --dry-run=server -f FILE checks the manifests",
}

// launchFlagsInCluster are launch's own flags. Those that are refused have no place in the help.
// The environment of this machine is not that of the pods.
func launchFlagsInCluster() []cli.Flag {
	own := make(map[string]bool)
	for _, f := range k8sFlags() {
		own[f.Names()[0]] = true
	}
	var all []cli.Flag
	for _, f := range withoutVariables(options.Flags()) {
		name := f.Names()[0]
		if own[name] {
			continue
		}
		if _, refused := notInCluster[name]; refused {
			// Every kind of flag has this field, and no interface of package cli sets
			// it.
			reflect.ValueOf(f).Elem().FieldByName("Hidden").SetBool(true)
		}
		switch f := f.(type) {
		case *cli.StringFlag:
			if name == "gpus" {
				f.Usage, f.DefaultText = "`NUMBER` of GPUs of each worker: nvidia.com/gpu in the limits of its pod", "none"
			}
		case *cli.IntFlag:
			if name == "num-workers" {
				f.DefaultText = "must be given"
			}
		}
		all = append(all, f)
	}
	return all
}

// withoutVariables are flags that no variable of the environment sets.
func withoutVariables(flags []cli.Flag) []cli.Flag {
	for _, f := range flags {
		reflect.ValueOf(f).Elem().FieldByName("EnvVars").SetZero()
	}
	return flags
}

const (
	secretFileFlag = "secret-file"
	// oldSecretFile was the default: a file that is there is still used.
	oldSecretFile = "paragon-secret"
	// leaveTime is the default of --drain; checkpointTime is that of --stop-timeout where the
	// command has a folder for checkpoints.
	leaveTime, checkpointTime = 20 * time.Second, 30 * time.Second
	// leaveMargin is what the default of --drain has beyond --stop-timeout.
	leaveMargin = 10 * time.Second
)
