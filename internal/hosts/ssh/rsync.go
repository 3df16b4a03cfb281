package ssh

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"github.com/paragon-train/paragon/internal/hosts/agent"
	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/hosts/procgroup"
)

// Folder is a folder of a host as this package takes it. ~/ stands for the home folder there, where
// ssh and rsync start; "" is the home folder.
func Folder(dir string) string {
	if rest, ok := strings.CutPrefix(dir, "~/"); ok {
		dir = rest
	}
	if dir == "" {
		return "."
	}
	return dir
}

// Sync copies the source into the folder dst of the host by rsync. It does not delete files in dst.
func (m *Method) Sync(ctx context.Context, machine *Machine, source Source, dst string) error {
	h := machine.host
	if _, err := machine.Ask(ctx, agent.Question{MakeDir: dst}); err != nil {
		return fmt.Errorf("launch: make folder for --sync-dst-dir: %w", err)
	}
	src := strings.TrimSuffix(source.Dir, "/") + "/"
	m.cfg.Logger.Info(fmt.Sprintf("rsync %s -> %s:%s", src, h.Name, dst))
	return m.rsync(ctx, h, src, dst, source.patterns()...)
}

// Copy copies a file of this machine into the folder dst of the host with the same command as Sync.
func (m *Method) Copy(ctx context.Context, machine *Machine, file, dst string) error {
	return m.rsync(ctx, machine.host, file, dst)
}

// Exit codes of rsync: some files were not transferred, or vanished.
const (
	rsyncPartial  = 23
	rsyncVanished = 24
)

// rsync runs rsync, up to three times where files were in its way. Hosts that share a file system
// copy into one folder at the same time: what one copy makes while another is about to fails that
// one, which finds it there the next time.
func (m *Method) rsync(ctx context.Context, h hosts.Host, src, dst string, flags ...string) error {
	for try := 1; ; try++ {
		cmd := exec.Command("rsync", m.rsyncArgs(h, src, dst, flags...)...)
		procgroup.Own(cmd)
		var errs tail
		cmd.Stderr = &errs
		err := runContext(ctx, cmd)
		if err == nil {
			return nil
		}
		code := cmd.ProcessState.ExitCode()
		if again := code == rsyncPartial || code == rsyncVanished; !again || try == 3 || ctx.Err() != nil {
			return m.explain(h, errs.String(), fmt.Errorf("rsync %s -> %s:%s: %w", src, h.Name, dst, err))
		}
	}
}

// rsyncArgs are rsync's arguments: -s protects the folder's name from the remote shell; ssh runs
// with the same options as for the agent.
func (m *Method) rsyncArgs(h hosts.Host, src, dst string, flags ...string) []string {
	var rsh []string
	for _, w := range append([]string{m.cfg.Command[0]}, m.options(h)...) {
		rsh = append(rsh, rsyncQuote(w))
	}
	name := h.Name
	if strings.Contains(name, ":") {
		name = "[" + name + "]"
	}
	if h.User != "" {
		name = h.User + "@" + name
	}
	if strings.HasPrefix(dst, "-") {
		dst = "./" + dst
	}
	return slices.Concat([]string{"-azs"}, flags, []string{"-e", strings.Join(rsh, " "), "--", src, name + ":" + dst + "/"})
}

// rsyncQuote quotes a word for rsync's -e, where a quote is doubled inside quotes of its own kind.
func rsyncQuote(w string) string {
	if w != "" && !strings.ContainsAny(w, " '\"") {
		return w
	}
	return "'" + strings.ReplaceAll(w, "'", "''") + "'"
}
