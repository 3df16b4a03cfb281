package agent

import (
	"context"
	"log/slog"
	"os"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/internal/hosts/agent"
	"github.com/paragon-train/paragon/launch/internal/command"
	"github.com/paragon-train/paragon/launch/internal/spot"
)

// SpotFlag names the provider whose notices are watched for.
const SpotFlag = "spot"

// NewSpotFlag is --spot of launch or of launch agent.
func NewSpotFlag(usage string) cli.Flag {
	return &cli.StringFlag{Name: SpotFlag, Usage: usage, DefaultText: spot.Off}
}

// CheckSpot checks the value of --spot, and the address of the metadata service.
func CheckSpot(provider string) error {
	if err := spotConfig(provider, nil).Check(); err != nil {
		return command.Usage(err)
	}
	return nil
}

// spotConfig watches a provider at its own address, or at that of the environment, where tests and
// people with a metadata service of their own put theirs.
func spotConfig(provider string, log *slog.Logger) spot.Config {
	return spot.Config{Provider: provider, URL: os.Getenv(spot.URLVariable), Logger: log}
}

// watchSpot is what an agent does to watch for notices of its provider; nil: nothing.
func watchSpot(provider string, log *slog.Logger) func(context.Context, func(agent.Notice)) {
	if provider == "" || provider == spot.Off {
		return nil
	}
	return func(ctx context.Context, tell func(agent.Notice)) { spot.Watch(ctx, spotConfig(provider, log), tell) }
}

// SpotArguments tell an agent to watch for notices.
func SpotArguments(provider string) []string {
	if provider == "" || provider == spot.Off {
		return nil
	}
	return []string{"--" + SpotFlag, provider}
}
