package k8s

import (
	"io"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/launch/internal/command"
	"github.com/paragon-train/paragon/launch/internal/command/options"
)

// k8sDescription is what launch k8s render --help says.
const k8sDescription = `Prints the manifests of a job for Kubernetes: three Indexed Jobs (scheduler, servers, workers), a headless Service, a
Secret and PodDisruptionBudgets; with --jobset one JobSet in place of the Jobs and the Service.

  two workers and two servers
    launch k8s render --image registry.example.com/me/train:1 -n 2 -s 2 -- /app/train --epochs 5 > job.yaml
    kubectl apply -f job.yaml
    kubectl logs -f job/paragon-scheduler

  each worker with a GPU, checkpoints on a volume, started by Kueue when there is room for all
    launch k8s render --image registry.example.com/me/train:1 --name resnet -n 8 -s 4 --gpus 1 --cpus 8 --memory 32Gi \
       --pvc checkpoints:/checkpoints --jobset --kueue training -- /app/train --checkpoint-dir /checkpoints/resnet

  workers may come and go
    launch k8s render --image registry.example.com/me/train:1 -n 2 --elastic-training-enabled -- /app/train > job.yaml
    kubectl patch job/paragon-workers -p '{"spec":{"completions":4,"parallelism":4}}'

The pod of the scheduler runs launch, with launch's own flags that are given here; its log is the merged output, its exit code that of the job. It
waits for the agents of the other pods. The image needs launch in its PATH, of the same build in all pods; launch image makes such an image. A pod that
is evicted or whose node is lost is replaced. The job resumes from its newest checkpoint when the scheduler's pod is replaced (PARAGON_RESUME=1 is
set; a new training needs a checkpoint folder of its own). docs/how-to/kubernetes.md has the rest.`

// Run is `launch k8s`.
func Run(args []string, stdout, stderr io.Writer) int {
	render := &cli.Command{
		Name:        "render",
		Usage:       "print the manifests of a job",
		UsageText:   "launch k8s render --image NAME -n WORKERS [launch's own flags] -- COMMAND",
		Description: k8sDescription,
		Flags:       append(k8sFlags(), launchFlagsInCluster()...),
		Action:      func(c *cli.Context) error { return renderK8s(c, stdout, stderr) },
	}
	app := &cli.App{
		Name: "launch k8s", Usage: "run a job on Kubernetes", UsageText: "launch k8s render --image NAME -n WORKERS [launch's own flags] -- COMMAND",
		Commands: []*cli.Command{render}, DisableSliceFlagSeparator: true,
	}

	// The bare command shows what there is.
	app.Action = func(c *cli.Context) error {
		if c.NArg() > 0 {
			return command.Usagef("k8s: there is no %q; there is render", c.Args().First())
		}
		return cli.ShowAppHelp(c)
	}
	if len(args) > 0 && args[0] == render.Name {
		args = options.JoinBool(&cli.App{Flags: render.Flags}, args)
	}
	return command.RunApp(app, args, stdout, stderr)
}
