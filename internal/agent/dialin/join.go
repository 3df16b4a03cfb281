package dialin

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"time"

	"github.com/paragon-train/paragon/internal/agent"
)

// Why Join ended, besides the end of the job and of its context.
var (
	ErrRefused = errors.New("the launcher refused") // its error says why and what to do; to try again is of no use
	ErrLost    = errors.New("the launcher is lost") // it was not reached, or its lease expired
)

// JoinConfig configures Join.
type JoinConfig struct {
	// Addresses are where the launcher may be: host:port. They are asked for before each attempt, because a file with them may not be there yet.
	Addresses func() ([]string, error)
	Secret    Secret
	Info      Info
	Timeout   time.Duration // for reaching the launcher; 0: 5 min
	Rejoin    time.Duration // how long to look for a new launcher after one is lost; 0: Join returns then
	Serve     agent.Config  // Lease does not matter: it is the launcher's
	Logger    *slog.Logger  // slog.Default()
}

// Join runs this machine's agent. It returns nil once the launcher says that the job is over or that this host was removed, else an error that is
// ErrRefused, ErrLost or ctx's cause. No process that it started is left then.
func Join(ctx context.Context, cfg JoinConfig) error { return nil }

// DialControl connects launch ctl with the launcher, whose Config.Control serves the connection.
func DialControl(ctx context.Context, addresses []string, s Secret) (net.Conn, error) {
	return nil, nil
}

// Build identifies this program: agents and launcher of a job must be the same one.
func Build() (string, error) { return "", nil }
