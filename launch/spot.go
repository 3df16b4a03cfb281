package main

import (
	"context"
	"log/slog"
	"os"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/internal/hosts/agent"
	"github.com/paragon-train/paragon/launch/internal/command"
	"github.com/paragon-train/paragon/launch/internal/spot"
)

const spotFlag = "spot"

// newSpotFlag is --spot of launch or of launch agent.
func newSpotFlag(usage string) cli.Flag {
	return &cli.StringFlag{Name: spotFlag, Usage: usage, DefaultText: spot.Off}
}

// checkSpot checks the value of --spot, and the address of the metadata service.
func checkSpot(provider string) error {
	if err := spotConfig(provider, nil).Check(); err != nil {
		return command.Usage(err)
	}
	return nil
}

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

// agentArguments are those of an agent that this launcher starts: here, or on another host of the
// job. Where the job is on other hosts, this machine may be none of the provider's: then it is not
// asked for it by name.
func (o *options) agentArguments(lease string, here bool) []string {
	provider := o.survival.spot
	if provider != "" && provider != spot.Off && here && o.remote {
		provider = spot.Auto
	}
	return append([]string{"agent", lease}, spotArguments(provider)...)
}

// spotArguments tell an agent to watch for notices.
func spotArguments(provider string) []string {
	if provider == "" || provider == spot.Off {
		return nil
	}
	return []string{"--" + spotFlag, provider}
}
