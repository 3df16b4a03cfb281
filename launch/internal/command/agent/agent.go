package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/paragon-train/paragon/internal/files/scratch"
	"github.com/paragon-train/paragon/internal/hosts/agent"
	"github.com/paragon-train/paragon/internal/hosts/agent/dialin"
	"github.com/paragon-train/paragon/internal/member/record"
	"github.com/paragon-train/paragon/launch/internal/command"
	"github.com/paragon-train/paragon/launch/internal/slurm"
)

// NoLease is the lease of the agent on the launching machine. It sees at once when its launcher has
// ended; a launcher that is silent there has only been stopped (Ctrl-Z).
const NoLease = "none"

// Run is `launch agent LEASE [--spot PROVIDER]`, which ssh and the launching machine's
// launcher start, or `launch agent --join ADDR`.
func Run(args []string, stdout, stderr io.Writer, log *slog.Logger) int {
	provider := ""

	// A launcher writes LEASE, with --spot PROVIDER behind it or without.
	if len(args) == 3 && args[1] == "--"+SpotFlag {
		args, provider = args[:1], args[2]
	}
	if len(args) != 1 || strings.HasPrefix(args[0], "-") {
		return command.RunApp(agentApp(log), args, stdout, stderr)
	}

	// The launcher may have the secret. No process that this one starts shall.
	os.Unsetenv(dialin.SecretVariable)
	lease := time.Duration(-1)
	if args[0] != NoLease {
		var err error
		if lease, err = time.ParseDuration(args[0]); err != nil || lease <= 0 {
			log.Error(fmt.Sprintf("launch: agent: lease is %q, want a duration above 0", args[0]))
			return command.ExitUsage
		}
	}
	exe, err := os.Executable()
	if err != nil {
		log.Error(fmt.Sprintf("launch: agent: find own program: %v", err))
		return 1
	}
	ctx, stop := agentContext()
	defer stop()
	err = agent.Serve(ctx, os.Stdin, os.Stdout, agent.Config{Executable: exe, Lease: lease, Adopt: true, Logger: log, Watch: watchSpot(provider, log)})

	// The folders are those of processes that were killed.
	scratch.Sweep()

	// Only the agent on the launching machine has no lease, and finds the files of launchers.
	if lease < 0 {
		sweepLaunchers()
	}
	if err != nil {
		log.Error(err.Error())
		return 1
	}
	if stopped := (stopSignal{}); errors.As(context.Cause(ctx), &stopped) {
		return 128 + int(stopped.Signal)
	}
	return 0
}

// sweepLaunchers removes the folders and records of launchers that were killed. The agent of this
// machine does so when it ends: it may outlive its launcher, whose files these then are.
func sweepLaunchers() {
	slurm.SweepJoinFiles()
	if dir, err := record.Dir(os.Getenv); err == nil {
		record.Sweep(dir)
	}
}
