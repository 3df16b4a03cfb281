package nccl

import (
	"errors"
	"fmt"

	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
)

// ErrClosed says that the clique was closed.
var ErrClosed = errors.New("closed")

// AllReduce gives every rank the ranks' numbers joined by op: recv[i][k] = op over j of send[j][k],
// count numbers each. recv may be send.
func (c *Clique) AllReduce(send, recv []drv.Ptr, count int64, t Type, op Op, streams []drv.Stream) error {
	return c.all("ncclAllReduce", send, recv, count, t, streams, func(i int) uintptr {
		return c.mem.caller.Call(c.l.f.allReduce, uintptr(send[i]), uintptr(recv[i]), uintptr(count), uintptr(t), uintptr(op), c.comms[i], uintptr(streams[i]))
	})
}

// ReduceScatter joins the ranks' numbers by op and gives each rank its part: send has Size·count
// numbers, recv[i][k] = op over j of send[j][i·count+k]. recv[i] may be that part of send[i].
func (c *Clique) ReduceScatter(send, recv []drv.Ptr, count int64, t Type, op Op, streams []drv.Stream) error {
	return c.all("ncclReduceScatter", send, recv, count, t, streams, func(i int) uintptr {
		return c.mem.caller.Call(c.l.f.reduceScatter, uintptr(send[i]), uintptr(recv[i]), uintptr(count), uintptr(t), uintptr(op), c.comms[i], uintptr(streams[i]))
	})
}

// AllGather gives every rank what each has: recv[i][j·count+k] = send[j][k], for count numbers k of
// each rank. send[i] may be its part of recv[i].
func (c *Clique) AllGather(send, recv []drv.Ptr, count int64, t Type, streams []drv.Stream) error {
	return c.all("ncclAllGather", send, recv, count, t, streams, func(i int) uintptr {
		return c.mem.caller.Call(c.l.f.allGather, uintptr(send[i]), uintptr(recv[i]), uintptr(count), uintptr(t), c.comms[i], uintptr(streams[i]))
	})
}

// Broadcast gives every rank the root's numbers: recv[i][k] = send[root][k]. The others' send is
// not read.
func (c *Clique) Broadcast(send, recv []drv.Ptr, count int64, t Type, root int, streams []drv.Stream) error {
	if root < 0 || root >= c.Size() {
		return fmt.Errorf("nccl: ncclBroadcast: root is rank %d of %d", root, c.Size())
	}
	return c.all("ncclBroadcast", send, recv, count, t, streams, func(i int) uintptr {
		return c.mem.caller.Call(c.l.f.broadcast, uintptr(send[i]), uintptr(recv[i]), uintptr(count), uintptr(t), uintptr(root), c.comms[i], uintptr(streams[i]))
	})
}

// Together has the collectives that f asks for started as one, which costs less than one after
// another. They may still be done in order.
func (c *Clique) Together(f func() error) error {
	if code := int32(c.mem.caller.Call(c.l.f.groupStart)); code != success {
		return c.newError("ncclGroupStart", code)
	}
	err := f()
	// The group must end whatever f says, or the thread's later calls would be part of it.
	if code := int32(c.mem.caller.Call(c.l.f.groupEnd)); code != success && err == nil {
		err = c.newError("ncclGroupEnd", code)
	}
	return err
}

// all makes one call for each rank, as a group.
func (c *Clique) all(name string, send, recv []drv.Ptr, count int64, t Type, streams []drv.Stream, call func(i int) uintptr) error {
	if !c.note(name, count) {
		return fmt.Errorf("nccl: %s: the clique is %w", name, ErrClosed)
	}
	if n := c.Size(); len(send) != n || len(recv) != n || len(streams) != n {
		return fmt.Errorf("nccl: %s: got %d to send, %d to receive and %d streams, want %d of each", name, len(send), len(recv), len(streams), n)
	}
	if count < 0 {
		return fmt.Errorf("nccl: %s of %d numbers: want 0 or more", name, count)
	}
	return c.Together(func() error {
		for i := range c.comms {
			if code := int32(call(i)); code != success {
				return c.newError(fmt.Sprintf("%s of %d numbers of type %d on rank %d (cuda:%d)", name, count, t, i, c.devices[i]), code)
			}
		}
		return nil
	})
}
