package start

import (
	"io"
	"log/slog"

	"github.com/paragon-train/paragon/launch/internal/hostsource"
	"github.com/paragon-train/paragon/launch/internal/remotecontrol"
)

// An Environment is what start methods work with, besides the command line.
type Environment struct {
	// Executable is the launch program.
	Executable string

	// Folder is the one that launch runs in.
	Folder string

	Log *slog.Logger

	// AgentLog gets what agents on this machine write.
	AgentLog io.Writer

	// Source follows the list of hosts that others keep; nil: there is none.
	Source *hostsource.Follower

	// Control answers launch ctl on other machines.
	Control *remotecontrol.Server

	// Progress shows what launch waits for; "" ends that.
	Progress func(text string)
}
