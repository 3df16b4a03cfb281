package remotecontrol

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/member/framing"
	"github.com/paragon-train/paragon/internal/member/record"
)

// A Client asks the launcher of one job. Its methods may be called together.
type Client struct {
	// Dial connects with the launcher.
	Dial func(ctx context.Context) (net.Conn, error)
}

// ErrReply is in the chain of the error when the launcher answered that it cannot answer: it has no
// such job, say.
var ErrReply = errors.New("the launcher")

// Record is that of the job whose ID begins with id. It has no credentials.
func (c *Client) Record(ctx context.Context, id string) (record.Record, error) {
	r, _, err := c.ask(ctx, question{Job: id})
	return r.Job, err
}

// Link makes a link to the job's page; empty: it has none.
func (c *Client) Link(ctx context.Context, job string) (string, error) {
	r, _, err := c.ask(ctx, question{Job: job, Link: true})
	return r.Link, err
}

// Carry carries a request to the job's scheduler. The error of one that was refused has
// control.ErrRefused in its chain.
func (c *Client) Carry(ctx context.Context, job string, request []byte) ([]byte, error) {
	r, answer, err := c.ask(ctx, question{Job: job, Request: request})
	if err == nil && !r.Answer {
		err = errors.New("the launcher sent no answer from the scheduler")
	}
	return answer, err
}

func (c *Client) ask(ctx context.Context, q question) (r reply, answer []byte, err error) {
	conn, err := c.Dial(ctx)
	if err != nil {
		return r, nil, err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	q.Version = version
	if err = framing.WriteJSON(conn, q, maxQuestion); err == nil {
		err = framing.ReadJSON(conn, &r, maxReply)
	}
	if err == nil && r.Answer {
		answer, err = framing.Read(conn, nil, control.MaxAnswer)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		err = context.Cause(ctx)
	case errors.Is(err, io.EOF):
		err = fmt.Errorf("the launcher closed the connection: %w", io.ErrUnexpectedEOF)
	}
	switch {
	case err != nil:
		return r, nil, err
	case r.Refused:
		return r, nil, fmt.Errorf("%w: %s", control.ErrRefused, r.Error)
	case r.Error != "":
		return r, nil, fmt.Errorf("%w says: %s", ErrReply, r.Error)
	case r.Version != version:
		return r, nil, versionError(version, r.Version)
	}
	return r, answer, nil
}
