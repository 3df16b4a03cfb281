package run

import (
	"bytes"
	"log/slog"
)

// launcherRole is the role of launch in its JSON lines.
const launcherRole = "launcher"

// agentLines makes lines of a JSON log of those of an agent, which are text.
type agentLines struct {
	log  *slog.Logger
	rest []byte
}

// Write implements io.Writer for one goroutine.
func (a *agentLines) Write(p []byte) (int, error) {
	a.rest = append(a.rest, p...)
	for {
		line, rest, found := bytes.Cut(a.rest, []byte("\n"))
		if !found && len(line) < maxAgentLine {
			return len(p), nil
		}
		a.log.Warn("agent: " + string(line))
		a.rest = rest
	}
}

// maxAgentLine bounds what is held back of a line.
const maxAgentLine = 64 << 10
