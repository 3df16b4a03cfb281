package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strings"
	"time"
)

// stranger lets a stranger disturb the scheduler and all servers until the job's end.
func (j *job) stranger(ctx context.Context, how string, connections int) error {
	targets := []string{j.address}
	for i := range servers {
		port, err := j.listening(fmt.Sprint("server", i))
		if err != nil {
			return err
		}
		targets = append(targets, net.JoinHostPort(j.lab.Address(fmt.Sprint("server", i)), port))
	}
	told, err := json.Marshal(disturbance{how, connections, targets})
	if err != nil {
		return err
	}
	cmd := j.helper(ctx, "stranger", "stranger", string(told))
	if err := cmd.Start(); err != nil {
		return err
	}
	j.others = append(j.others, func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return nil
}

// listening returns the port on which a host listens.
func (j *job) listening(host string) (string, error) {
	out, err := exec.Command("ip", "netns", "exec", j.lab.Namespace(host), "cat", "/proc/net/tcp").Output()
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		var port int
		const listen = "0A"
		if len(f) > 3 && f[3] == listen {
			if _, err := fmt.Sscanf(f[1][strings.Index(f[1], ":")+1:], "%X", &port); err == nil {
				return fmt.Sprint(port), nil
			}
		}
	}
	return "", fmt.Errorf("%s has no listening port", host)
}

// A disturbance is what a stranger does.
type disturbance struct {
	// How is garbage or slow: much at once, or a byte each second.
	How string

	// Connections are how many it holds open, spread over the Targets.
	Connections int
	Targets     []string
}

// disturb is the stranger. It ends when it is killed.
func disturb(d disturbance) {
	for i := range d.Connections {
		go func() {
			for {
				c, err := net.DialTimeout("tcp", d.Targets[i%len(d.Targets)], 2*time.Second)
				if err != nil {
					time.Sleep(100 * time.Millisecond)
					continue
				}
				go io.Copy(io.Discard, c)
				d.write(c)
				c.Close()
			}
		}()
	}
	select {}
}

// write sends random bytes until the other side closes the connection.
func (d *disturbance) write(w io.Writer) {
	b, every := make([]byte, 4096), 50*time.Millisecond
	if d.How == "slow" {
		b, every = b[:1], time.Second
	}
	for {
		_, _ = rand.Read(b)
		time.Sleep(every)
		if _, err := w.Write(b); err != nil {
			return
		}
	}
}
