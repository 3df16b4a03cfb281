package netlab

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A Lab is a set of hosts. Its methods may be called together.
type Lab struct {
	ports   map[string]*port
	byIP    map[[4]byte]*port
	readers sync.WaitGroup

	// mu guards the rest.
	mu    sync.Mutex
	rng   *rand.Rand
	links map[[2]string]Link
	stats Stats
}

// Stats count packets since New.
type Stats struct{ Passed, Lost, Doubled, Reset uint64 }

// A port is one host's end.
type port struct {
	name, space string
	ip          [4]byte
	tun         *os.File
	queue       *queue
}

// mtu is large, so that the switch has few packets to carry.
const mtu = 9000

// New makes the hosts. The seed decides which packets are lost.
func New(seed uint64, hosts ...string) (lab *Lab, err error) {
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("netlab: %w: they need root", ErrUnavailable)
	}
	if _, err := exec.LookPath("ip"); err != nil {
		return nil, fmt.Errorf("netlab: %w: iproute2 is not installed: %w", ErrUnavailable, err)
	}
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		return nil, fmt.Errorf("netlab: %w: %w", ErrUnavailable, err)
	}
	if len(hosts) > 250 {
		return nil, fmt.Errorf("netlab: got %d hosts, want at most 250", len(hosts))
	}
	lab = &Lab{ports: map[string]*port{}, byIP: map[[4]byte]*port{}, rng: rand.New(rand.NewPCG(seed, 1)), links: map[[2]string]Link{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, lab.Close())
		}
	}()
	for i, name := range hosts {
		p := &port{name: name, space: fmt.Sprintf("paragon-%d-%d", os.Getpid(), i), ip: [4]byte{10, 213, 9, byte(i + 1)}, queue: newQueue()}
		if err := command("ip", "netns", "add", p.space); err != nil {
			return lab, fmt.Errorf("netlab: %w: %w", ErrUnavailable, err)
		}
		lab.ports[name], lab.byIP[p.ip] = p, p
		if p.tun, err = openTUN(p.space); err != nil {
			return lab, fmt.Errorf("netlab: %w: %w", ErrUnavailable, err)
		}
		for _, line := range []string{
			"link set lo up",
			fmt.Sprintf("address add %s/24 dev %s", lab.Address(name), device),
			fmt.Sprintf("link set %s mtu %d up", device, mtu),
		} {
			if err := command(append([]string{"ip", "-n", p.space}, strings.Fields(line)...)...); err != nil {
				return lab, fmt.Errorf("netlab: %w", err)
			}
		}
	}
	for _, p := range lab.ports {
		lab.readers.Go(func() { lab.read(p) })
		lab.readers.Go(func() { p.queue.write(p.tun) })
	}
	return lab, nil
}

const device = "lab0"

// openTUN makes a TUN device in a namespace and returns the file of its packets.
func openTUN(space string) (*os.File, error) {
	type result struct {
		f   *os.File
		err error
	}
	done := make(chan result)
	go func() {
		// The thread is never unlocked: it ends with the goroutine, since it is in another
		// namespace.
		runtime.LockOSThread()
		f, err := func() (*os.File, error) {
			ns, err := os.Open("/var/run/netns/" + space)
			if err != nil {
				return nil, err
			}
			defer ns.Close()
			if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
				return nil, fmt.Errorf("enter namespace %s: %w", space, err)
			}
			fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
			if err != nil {
				return nil, fmt.Errorf("open /dev/net/tun: %w", err)
			}
			request, err := unix.NewIfreq(device)
			if err == nil {
				request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
				err = unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
			}
			if err != nil {
				unix.Close(fd)
				return nil, fmt.Errorf("make a TUN device: %w", err)
			}
			return os.NewFile(uintptr(fd), "tun of "+space), nil
		}()
		done <- result{f, err}
	}()
	r := <-done
	return r.f, r.err
}

func command(words ...string) error {
	out, err := exec.Command(words[0], words[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(words, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// Address is a host's IP address.
func (l *Lab) Address(host string) string {
	ip := l.ports[host].ip
	return fmt.Sprintf("%d.%d.%d.%d", ip[0], ip[1], ip[2], ip[3])
}

// Namespace is the name of a host's network namespace, as ip netns has it.
func (l *Lab) Namespace(host string) string { return l.ports[host].space }

// Command is exec.CommandContext in a host's namespace. The process is the program itself, so that
// signals reach it.
func (l *Lab) Command(ctx context.Context, host, name string, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "ip", append([]string{"netns", "exec", l.ports[host].space, name}, args...)...)
}

// Set makes a rule for what one host sends to another; either may be Any. A rule that names both
// hosts goes before one that names one, and that before one of Any and Any.
func (l *Lab) Set(from, to string, link Link) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.links[[2]string{from, to}] = link
}

// Unset takes a rule back.
func (l *Lab) Unset(from, to string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.links, [2]string{from, to})
}

// Clear takes all rules back.
func (l *Lab) Clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.links)
}

// Isolate makes a rule by which a host neither hears nor is heard; Rejoin takes it back.
func (l *Lab) Isolate(host string) {
	l.Set(host, Any, Link{Down: true})
	l.Set(Any, host, Link{Down: true})
}

// Rejoin takes Isolate back.
func (l *Lab) Rejoin(host string) {
	l.Unset(host, Any)
	l.Unset(Any, host)
}

// Stats returns what became of the packets so far.
func (l *Lab) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stats
}

// Close removes the namespaces. Processes that still run there keep theirs, without a way out.
func (l *Lab) Close() (err error) {
	for _, p := range l.ports {
		if p.tun != nil {
			p.tun.Close()
		}
		p.queue.close()
	}
	l.readers.Wait()
	for _, p := range l.ports {
		err = errors.Join(err, command("ip", "netns", "delete", p.space))
	}
	clear(l.ports)
	return err
}

// read carries a host's packets to where they go.
func (l *Lab) read(p *port) {
	buf := make([]byte, mtu+100)
	for {
		n, err := p.tun.Read(buf)
		if err != nil {
			return
		}
		if packet := buf[:n]; len(packet) >= 20 && packet[0]>>4 == 4 {
			l.carry(p, packet)
		}
	}
}

// carry brings a packet to its host, as the link from the one to the other says: late, twice, as a
// reset to the sender, or not at all.
func (l *Lab) carry(from *port, packet []byte) {
	to := l.byIP[[4]byte(packet[16:20])]
	if to == nil {
		return
	}
	l.mu.Lock()
	link := l.find(from.name, to.name)
	copies, late := 1, link.Delay
	switch {
	case link.Down, link.Loss > 0 && l.rng.Float64() < link.Loss:
		copies = 0
		l.stats.Lost++
	case link.Reset:
		copies = 0
		l.stats.Reset++
	case link.Duplicate > 0 && l.rng.Float64() < link.Duplicate:
		copies = 2
		l.stats.Doubled++
	}
	if link.Jitter > 0 {
		late += time.Duration(l.rng.Int64N(int64(link.Jitter)))
	}
	l.stats.Passed += uint64(copies)
	l.mu.Unlock()
	if link.Reset && !link.Down {
		if answer := reset(packet); answer != nil {
			from.queue.put(to.name, answer, 0)
		}
	}
	for range copies {
		to.queue.put(from.name, append([]byte(nil), packet...), late)
	}
}

func (l *Lab) find(from, to string) Link {
	for _, way := range [][2]string{{from, to}, {from, Any}, {Any, to}, {Any, Any}} {
		if link, ok := l.links[way]; ok {
			return link
		}
	}
	return Link{}
}
