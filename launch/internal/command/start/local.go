package start

import (
	"github.com/paragon-train/paragon/launch/internal/command/agent"
	"github.com/paragon-train/paragon/launch/internal/command/options"
	"github.com/paragon-train/paragon/launch/internal/method"
	"github.com/paragon-train/paragon/launch/internal/spot"
)

// OpenLocal opens this machine. Jobs on other hosts have it, too: their scheduler runs here.
func OpenLocal(o *options.Options, e Environment) method.Method {
	return &method.Local{Agent: append([]string{e.Executable}, agentArguments(o, agent.NoLease, true)...), Log: e.AgentLog}
}

// agentArguments are those of an agent that this launcher starts: here, or on another host of the
// job. Where the job is on other hosts, this machine may be none of the provider's: then it is not
// asked for it by name.
func agentArguments(o *options.Options, lease string, here bool) []string {
	provider := o.Survival.Spot
	if provider != "" && provider != spot.Off && here && o.Start.Remote {
		provider = spot.Auto
	}
	return append([]string{"agent", lease}, agent.SpotArguments(provider)...)
}
