// Package sshtest gives tests hosts to log in to: a real sshd on loopback addresses of its own,
// with keys, configuration and home directory made for the test.
//
// The test itself listens and hands each connection to an `sshd -i`, so the operating system
// chooses the port, and the test can cut connections.
package sshtest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// A Server is an sshd on several addresses. All of them are this machine.
type Server struct {
	Addresses []string // 127.0.0.2, ...
	Port      int

	// Home is the home directory of those who log in.
	Home string

	// Client is the ssh command that logs in without asking.
	Client []string

	// Config is the path of the client's configuration file.
	Config string

	sshd, serverConfig string

	// listeners are by address.
	listeners map[string]net.Listener

	// mu guards cmds.
	mu sync.Mutex

	// cmds have the address that was called.
	cmds map[*exec.Cmd]string

	all sync.WaitGroup
}

// Skip skips the test because something is missing on this machine, or fails it under
// PARAGON_TEST_REQUIRE=all.
func Skip(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("PARAGON_TEST_REQUIRE") == "all" {
		t.Fatalf("PARAGON_TEST_REQUIRE=all, and "+format, args...)
	}
	t.Skipf(format, args...)
}

// Cluster skips a test that starts a cluster (Slurm, hosts of MPI, containers, agents that are lost
// and come again) unless PARAGON_TEST_CLUSTERS is set, as by make testclusters: these tests take
// long, and some need programs that few machines have.
func Cluster(t testing.TB) {
	t.Helper()
	if os.Getenv("PARAGON_TEST_CLUSTERS") == "" {
		t.Skip("it starts a cluster: make testclusters runs it (PARAGON_TEST_CLUSTERS=1)")
	}
}

// Program finds a program, also where only root looks for it, or skips the test.
func Program(t testing.TB, name, debian string) string {
	t.Helper()
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	for _, dir := range []string{"/usr/sbin", "/usr/local/sbin", "/sbin"} {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path
		}
	}
	Skip(t, "there is no %s; install the package %s", name, debian)
	return ""
}

// Start starts a server on the first addresses from 127.0.0.2 on; it stops when the test ends.
func Start(t testing.TB, addresses int) *Server {
	t.Helper()
	s := &Server{sshd: Program(t, "sshd", "openssh-server"), cmds: make(map[*exec.Cmd]string)}
	keygen, client := Program(t, "ssh-keygen", "openssh-client"), Program(t, "ssh", "openssh-client")
	if os.Getuid() == 0 {
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
			Skip(t, "sshd needs the folder /run/sshd: %v", err)
		}
	}
	dir := t.TempDir()
	s.Home = filepath.Join(dir, "home of a user")
	must(t, os.Mkdir(s.Home, 0o755))
	for _, key := range []string{"host", "user"} {
		if out, err := exec.Command(keygen, "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(dir, key)).CombinedOutput(); err != nil {
			t.Fatalf("ssh-keygen: %v: %s", err, out)
		}
	}
	listeners := s.listen(t, addresses)
	s.listeners = make(map[string]net.Listener)
	for i, l := range listeners {
		s.listeners[s.Addresses[i]] = l
	}
	s.configureServer(t, dir)
	s.configureClient(t, dir)
	s.Client = []string{client, "-F", s.Config}

	for _, l := range listeners {
		s.all.Go(func() { s.accept(l) })
	}
	t.Cleanup(func() {
		for _, l := range s.listeners {
			l.Close()
		}
		s.Cut()
		s.all.Wait()
	})
	if out, err := exec.Command(client, "-F", s.Config, "-o", "BatchMode=yes", s.Addresses[0], "true").CombinedOutput(); err != nil {
		Skip(t, "sshd does not let this user in: %v: %s", err, out)
	}
	return s
}

// configureServer writes the server's configuration. Whatever this machine's sshd is told does not
// matter to the tests.
func (s *Server) configureServer(t testing.TB, dir string) {
	s.serverConfig = filepath.Join(dir, "sshd_config")
	write(t, s.serverConfig, fmt.Sprintf(`HostKey %[1]s/host
AuthorizedKeysFile %[1]s/user.pub
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin yes
PermitUserRC no
MaxStartups 100
SetEnv "HOME=%[2]s"
`, dir, s.Home))
}

// configureClient writes the client's configuration, by which it knows the server, and nobody is
// asked for anything.
func (s *Server) configureClient(t testing.TB, dir string) {
	hostKey, err := os.ReadFile(filepath.Join(dir, "host.pub"))
	must(t, err)
	var known strings.Builder
	for _, a := range s.Addresses {
		fmt.Fprintf(&known, "[%s]:%d %s", a, s.Port, hostKey)
	}
	write(t, filepath.Join(dir, "known_hosts"), known.String())
	s.Config = filepath.Join(dir, "ssh_config")
	// The default, a hybrid with a post-quantum part, takes nine tenths of a client's processor
	// time.
	write(t, s.Config, fmt.Sprintf(`Host *
  KexAlgorithms ecdh-sha2-nistp256
  Port %d
  User %s
  IdentityFile %[3]s/user
  IdentitiesOnly yes
  IdentityAgent none
  UserKnownHostsFile %[3]s/known_hosts
  GlobalKnownHostsFile /dev/null
  StrictHostKeyChecking yes
  ControlMaster no
`, s.Port, userName(t), dir))
}

// listen listens on the same port of all addresses.
func (s *Server) listen(t testing.TB, addresses int) []net.Listener {
	for range 20 {
		var all []net.Listener
		s.Addresses, s.Port = nil, 0
		for i := range addresses {
			a := fmt.Sprintf("127.0.0.%d", i+2)
			l, err := net.Listen("tcp", fmt.Sprintf("%s:%d", a, s.Port))
			if err != nil {
				if i == 0 {
					Skip(t, "this machine has no address %s: %v", a, err)
				}
				break
			}
			all, s.Addresses, s.Port = append(all, l), append(s.Addresses, a), l.Addr().(*net.TCPAddr).Port
		}
		if len(all) == addresses {
			return all
		}
		for _, l := range all {
			l.Close()
		}
	}
	t.Fatalf("sshtest: found no port that is free on %d addresses", addresses)
	return nil
}

func (s *Server) accept(l net.Listener) {
	host := l.Addr().(*net.TCPAddr).IP.String()
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		f, err := c.(*net.TCPConn).File()
		c.Close()
		if err != nil {
			continue
		}
		cmd := exec.Command(s.sshd, "-i", "-f", s.serverConfig)

		// Its log goes to /dev/null.
		cmd.Stdin, cmd.Stdout = f, f
		err = cmd.Start()
		f.Close()
		if err != nil {
			continue
		}
		s.mu.Lock()
		s.cmds[cmd] = host
		s.mu.Unlock()
		s.all.Go(func() {
			cmd.Wait()
			s.mu.Lock()
			delete(s.cmds, cmd)
			s.mu.Unlock()
		})
	}
}

// Force has sshd run a command of a shell in place of what a client asks for, which is in
// $SSH_ORIGINAL_COMMAND; empty: it runs that.
func (s *Server) Force(command string) error {
	text, err := os.ReadFile(s.serverConfig)
	if err != nil {
		return err
	}
	kept, _, _ := strings.Cut(string(text), "ForceCommand ")
	if command != "" {
		kept += "ForceCommand " + command + "\n"
	}
	return os.WriteFile(s.serverConfig, []byte(kept), 0o600)
}

// Cut kills all connections.
func (s *Server) Cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for cmd := range s.cmds {
		cmd.Process.Kill()
	}
}

// CutHost kills all connections to one address.
func (s *Server) CutHost(address string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for cmd, host := range s.cmds {
		if host == address {
			cmd.Process.Kill()
		}
	}
}

// Lose takes a host away: all connections to its address are killed, and no more are accepted. Lose
// and Return are not called together.
func (s *Server) Lose(t testing.TB, address string) {
	l := s.listeners[address]
	if l == nil {
		t.Errorf("sshtest: lose %s: want one of %v", address, s.Addresses)
		return
	}
	l.Close()
	s.CutHost(address)
}

// Return brings a host back that was lost.
func (s *Server) Return(t testing.TB, address string) {
	l, err := net.Listen("tcp", fmt.Sprintf("%s:%d", address, s.Port))
	if err != nil {
		t.Errorf("sshtest: return %s: %v", address, err)
		return
	}
	s.listeners[address] = l
	s.all.Go(func() { s.accept(l) })
}

// Hosts are the lines of a hosts file for all addresses.
func (s *Server) Hosts() string {
	var b strings.Builder
	for _, a := range s.Addresses {
		fmt.Fprintf(&b, "%s:%d\n", a, s.Port)
	}
	return b.String()
}

func userName(t testing.TB) string {
	u, err := user.Current()
	must(t, err)
	return u.Username
}

func write(t testing.TB, path, text string) {
	t.Helper()
	must(t, os.WriteFile(path, []byte(text), 0o600))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
