// Package ssh starts processes on other hosts through OpenSSH's client.
//
// The client runs with the user's own configuration, keys and ssh agent, but never prompts
// (BatchMode). On each host it runs one agent of ours (package agent), which starts all processes
// of the job there. Environment and secrets travel over ssh's standard input, so no command line
// shows them, and the processes end with the connection. The agent is the launch program itself,
// which is copied to ~/.cache/paragon of a host that does not have this build yet.
package ssh

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/agent"
	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/hosts/procgroup"
)

// Config configures a Method.
type Config struct {
	// Command is the ssh client with its options, such as "ssh".
	Command []string

	// Executable is the launch program that is copied to hosts.
	Executable string

	// AgentArgs are the arguments that make the executable an agent.
	AgentArgs []string

	Logger *slog.Logger
}

// A Method reaches hosts by ssh. Its methods may be called together.
type Method struct {
	cfg Config

	// once is for the next three fields.
	once sync.Once

	// sum is the hexadecimal checksum of the executable.
	sum string

	size int64
	err  error
}

// New makes a Method.
func New(cfg Config) *Method {
	if len(cfg.Command) == 0 {
		cfg.Command = []string{"ssh"}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	return &Method{cfg: cfg}
}

// connectTimeout bounds one attempt to connect, and so the time that an unreachable host costs.
const connectTimeout = 20 * time.Second

// options are ssh's, without the host.
func (m *Method) options(h hosts.Host) []string {
	args := append([]string(nil), m.cfg.Command[1:]...)
	args = append(args, "-T", "-o", "BatchMode=yes", "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3",
		"-o", "ConnectTimeout="+strconv.Itoa(int(connectTimeout/time.Second)))
	if h.Port != 0 {
		args = append(args, "-p", strconv.Itoa(h.Port))
	}
	return args
}

// Words is the command that logs in to h, without the options that this package adds.
func (m *Method) Words(h hosts.Host) []string {
	words := append(append([]string(nil), m.cfg.Command...), m.login(h))
	if h.Port != 0 {
		words = append(words, "-p", strconv.Itoa(h.Port))
	}
	return words
}

func (m *Method) login(h hosts.Host) string {
	if h.User != "" {
		return h.User + "@" + h.Name
	}
	return h.Name
}

// client is the ssh client about to run a script of /bin/sh on h. The script must have no single
// quotes, newlines or exclamation marks: the login shell there, of whatever kind, reads it first.
func (m *Method) client(h hosts.Host, script string) *exec.Cmd {
	args := append(m.options(h), "--", m.login(h), "exec /bin/sh -c '"+script+"'")
	cmd := exec.Command(m.cfg.Command[0], args...)

	// A terminal's Ctrl-C is for the launcher.
	procgroup.Own(cmd)
	cmd.WaitDelay = time.Second
	return cmd
}

// A Machine is a host with an agent on it.
type Machine struct {
	*agent.Client
	host hosts.Host
	cmd  *exec.Cmd

	// launcher has the launcher's addresses as the host sees them, from SSH_CONNECTION.
	launcher string

	address string
	once    sync.Once
	err     error
}

// missing is what the script prints on a host that has no agent.
const missing = "paragon-agent-missing"

// Dial connects to h and starts an agent there. ctx bounds that; the Machine lives until Close or
// until this process ends.
func (m *Method) Dial(ctx context.Context, h hosts.Host) (*Machine, error) {
	if err := m.fingerprint(); err != nil {
		return nil, err
	}
	machine, err := m.connect(ctx, h)
	if system, ok := missingSystem(err); ok {
		if err := m.install(ctx, h, system); err != nil {
			return nil, err
		}
		machine, err = m.connect(ctx, h)
	}
	return machine, err
}

func missingSystem(err error) (string, bool) {
	if err == nil {
		return "", false
	}
	_, rest, ok := strings.Cut(err.Error(), missing+" ")
	if !ok {
		return "", false
	}
	f := strings.Fields(rest)
	if len(f) < 2 {
		return "", true
	}
	return f[0] + " " + strings.TrimSuffix(f[1], ":"), true
}

func (m *Method) connect(ctx context.Context, h hosts.Host) (*Machine, error) {
	script := `f="$HOME/.cache/paragon/launch-` + m.sum + `"; [ -x "$f" ] && exec "$f" ` + strings.Join(m.cfg.AgentArgs, " ") +
		`; echo ` + missing + ` "$(uname -s)" "$(uname -m)"`
	cmd := m.client(h, script)
	errs := &tail{log: func(line string) { m.cfg.Logger.Warn(h.String() + ": " + line) }}
	cmd.Stderr = errs
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("launch: host %s: %w", h, err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("launch: host %s: %w", h, err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("launch: host %s: start ssh: %w", h, err)
	}
	client, err := agent.NewClient(ctx, h.String(), in, out)
	if err != nil {
		if ctx.Err() != nil {
			cmd.Process.Kill()
		}
		cmd.Wait()
		return nil, m.explain(h, errs.String(), err)
	}
	errs.live()
	machine := &Machine{Client: client, host: h, cmd: cmd}
	// client address, client port, server address, server port
	if f := strings.Fields(client.Hello().SSHConnection); len(f) == 4 {
		machine.launcher, machine.address = f[0], f[2]
		return machine, nil
	}
	machine.Close()
	return nil, fmt.Errorf("launch: host %s: its sshd set SSH_CONNECTION to %q, want four fields", h, client.Hello().SSHConnection)
}

// Address is the host's own address at which ssh reached it, whatever name the hosts file or ssh's
// configuration gives it, and behind any NAT or jump host.
func (m *Machine) Address() string { return m.address }

// LauncherAddress is where the connection came from, as the host sees it.
func (m *Machine) LauncherAddress() string { return m.launcher }

// closeTime is how long Close waits for the agent to stop its processes; the agent's own limits add
// up to less.
const closeTime = 5 * time.Second

// Close stops all processes that still run there, and the agent.
func (m *Machine) Close() error {
	m.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeTime)
		defer cancel()
		if m.err = m.Client.Close(ctx); m.err != nil {
			m.cmd.Process.Kill()
		}

		// The exit code of ssh adds nothing to what the agent reported.
		m.cmd.Wait()
	})
	return m.err
}

func (m *Method) fingerprint() error {
	m.once.Do(func() {
		f, err := os.Open(m.cfg.Executable)
		if err != nil {
			m.err = fmt.Errorf("launch: read own program: %w", err)
			return
		}
		defer f.Close()
		h := sha256.New()
		if m.size, err = io.Copy(h, f); err != nil {
			m.err = fmt.Errorf("launch: read own program: %w", err)
		}
		m.sum = hex.EncodeToString(h.Sum(nil)[:16])
	})
	return m.err
}

// systems maps names of uname to GOOS and GOARCH.
var systems = map[string]string{
	"Linux": "linux", "Darwin": "darwin", "FreeBSD": "freebsd",
	"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64", "i386": "386", "i686": "386",
}

// install copies the launch program to h.
func (m *Method) install(ctx context.Context, h hosts.Host, system string) error {
	kernel, arch, _ := strings.Cut(system, " ")
	if systems[kernel] != runtime.GOOS || systems[arch] != runtime.GOARCH {
		return fmt.Errorf("launch: host %s is %s, this launch is built for %s/%s; all hosts of a job need the same system",
			h, system, runtime.GOOS, runtime.GOARCH)
	}
	var id [8]byte
	rand.Read(id[:])
	script := fmt.Sprintf(`umask 077; d="$HOME/.cache/paragon"; n="$d/new-%x"; mkdir -p "$d" && cat > "$n" && `+
		`[ "$(wc -c < "$n")" -eq %d ] && chmod 700 "$n" && mv -f "$n" "$d/launch-%s"; e=$?; rm -f "$n"; `+
		`find "$d" -name "launch-*" -type f -mtime +60 -exec rm -f {} +; exit $e`, id, m.size, m.sum)
	f, err := os.Open(m.cfg.Executable)
	if err != nil {
		return fmt.Errorf("launch: read own program: %w", err)
	}
	defer f.Close()
	cmd := m.client(h, script)
	var errs tail
	cmd.Stdin, cmd.Stderr = f, &errs
	if err := runContext(ctx, cmd); err != nil {
		return m.explain(h, errs.String(), fmt.Errorf("copy the launch program to ~/.cache/paragon: %w", err))
	}
	return nil
}

// runContext runs a command and kills it when ctx ends.
func runContext(ctx context.Context, cmd *exec.Cmd) error {
	if err := cmd.Start(); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { cmd.Process.Kill() })
	err := cmd.Wait()
	if !stop() && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
