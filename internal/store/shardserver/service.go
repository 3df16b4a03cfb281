package shardserver

import (
	"context"
	"sync"

	"github.com/paragon-train/paragon/internal/store/identity"
	"github.com/paragon-train/paragon/internal/store/shard"
	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A service is what a server does with requests of one kind. Adding a kind is adding one to
// makeServices.
//
// A request passes prepare on the goroutine that reads its connection, before its payload is
// read. It passes serve on one of its own, where it may wait, unless Prompt has answered it
// before.
type service struct {
	// from says who may send them.
	from senders
	// head returns the message that a request is decoded into.
	head func(*call) wire.Message
	// take copies the request of a worker of this process to there. It returns false if the
	// request is of another type. Nil: in-process stores do not answer this kind.
	take func(*call, wire.Message) bool
	// prepare checks all that can be checked before memory is allocated for a payload of n
	// bytes.
	prepare func(c *call, n int) error
	// serve makes the answer.
	serve func(*call, context.Context) error
}

// serving makes a service of requests that are decoded into what at returns.
func serving[M any, P interface {
	*M
	wire.Message
}](from senders, at func(*call) *M, prepare func(*call, int) error, serve func(*call, context.Context) error) service {
	return service{
		from: from,
		head: func(c *call) wire.Message { return P(at(c)) },
		take: func(c *call, m wire.Message) bool {
			x, ok := m.(P)
			if ok {
				*at(c) = *x
			}
			return ok
		},
		prepare: prepare,
		serve:   serve,
	}
}

// remote returns the service without what in-process stores need: they do not answer this kind.
func (x service) remote() service {
	x.take = nil
	return x
}

// The services are made when one is asked for the first time. Were they the initial value of
// services, every program that only imports a store would link all of a server, and TLS.
var (
	servicesMade sync.Once
	services     []service
)

// makeServices returns all services, by kind.
func makeServices() []service {
	return []service{
		wire.KindPush:     serving(members, func(c *call) *wire.Push { return &c.push }, (*call).preparePush, (*call).servePush),
		wire.KindPushMany: serving(members, (*call).manyHead, (*call).preparePushMany, (*call).servePushMany).remote(),
		wire.KindPull:     serving(joiningToo, func(c *call) *wire.Pull { return &c.pull }, (*call).preparePull, (*call).servePull),
		wire.KindPushRows: serving(members, func(c *call) *wire.PushRows { return &c.others().pushRows }, (*call).preparePushRows, (*call).servePushRows),
		wire.KindPullRows: serving(joiningToo, func(c *call) *wire.PullRows { return &c.others().pullRows }, (*call).preparePullRows, (*call).servePullRows),
		wire.KindClip:     serving(members, func(c *call) *wire.Clip { return &c.others().clip }, fromShard(func(c *call) *wire.Origin { return &c.clip.Origin }), (*call).serveClip),

		wire.KindInitShard:  serving(members, func(c *call) *wire.InitShard { return &c.others().init }, (*call).prepareInit, (*call).serveInit),
		wire.KindAwaitShard: serving(joiningToo, func(c *call) *wire.AwaitShard { return &c.others().awaitShard }, from(func(c *call) *wire.Origin { return &c.awaitShard.Origin }), (*call).serveAwaitShard),

		wire.KindSetOptimizer: serving(joiningToo, func(c *call) *wire.SetOptimizer { return &c.others().setOptimizer }, from(func(c *call) *wire.Origin { return &c.setOptimizer.Origin }), acks(func(c *call, _ context.Context) error { return c.s.serveSetOptimizer(&c.setOptimizer) })),
		wire.KindSetRate:      serving(members, func(c *call) *wire.SetRate { return &c.others().setRate }, from(func(c *call) *wire.Origin { return &c.setRate.Origin }), acks(func(c *call, _ context.Context) error { return c.s.serveSetRate(&c.setRate) })),

		wire.KindReadState:  serving(joiningToo, func(c *call) *wire.ReadState { return &c.others().readState }, fromShard(func(c *call) *wire.Origin { return &c.readState.Origin }), (*call).serveReadState),
		wire.KindWriteState: serving(members, func(c *call) *wire.WriteState { return &c.others().writeState }, (*call).prepareWriteState, (*call).serveWriteState),
		wire.KindReadRows:   serving(joiningToo, func(c *call) *wire.ReadRows { return &c.others().readRows }, fromShard(func(c *call) *wire.Origin { return &c.readRows.Origin }), (*call).serveReadRows),
		wire.KindWriteRows:  serving(members, func(c *call) *wire.WriteRows { return &c.others().writeRows }, (*call).prepareWriteRows, (*call).serveWriteRows),
		wire.KindReadUsage: serving(joiningToo, func(c *call) *wire.ReadUsage { return &c.others().readUsage }, from(func(c *call) *wire.Origin { return &c.readUsage.Origin }), func(c *call, _ context.Context) error {
			c.usage = c.s.usage()
			return c.answer(&c.usage, nil)
		}),

		wire.KindProfile: serving(members, func(c *call) *wire.Profile { return &c.others().profile }, from(func(c *call) *wire.Origin { return &c.profile.Origin }), acks(func(c *call, _ context.Context) error {
			return c.s.profiles.command(c.s.membership.Load, c.s.cfg.Trace, &c.profile)
		})).remote(),
		wire.KindReadProfile: serving(members, func(c *call) *wire.ReadProfile { return &c.others().readProfile }, from(func(c *call) *wire.Origin { return &c.readProfile.Origin }), func(c *call, _ context.Context) (err error) {
			if c.part, err = c.s.profiles.read(c.s.membership.Load(), &c.readProfile); err != nil {
				return err
			}
			return c.answer(&c.part, nil)
		}).remote(),

		wire.KindReplicate: serving(otherServers, func(c *call) *wire.Replicate { return &c.others().replicate }, (*call).prepareReplicate, (*call).serveReplicate).remote(),
		wire.KindFill:      serving(otherServers, func(c *call) *wire.Fill { return &c.others().fill }, sized(func(c *call) (uint64, error) { return fillSize(&c.fill) }), acks(func(c *call, ctx context.Context) error { return c.s.serveFill(ctx, &c.fill, c.data) })).remote(),
		wire.KindFillPart:  serving(otherServers, func(c *call) *wire.FillPart { return &c.others().fillPart }, sized(func(c *call) (uint64, error) { return c.s.fillPartSize(&c.fillPart) }), acks(func(c *call, ctx context.Context) error { return c.s.serveFillPart(ctx, &c.fillPart, c.data) })).remote(),
	}
}

// serviceOf returns the service of a kind; nil: servers do not answer it.
func serviceOf(kind wire.Kind) *service {
	servicesMade.Do(func() { services = makeServices() })
	if int(kind) >= len(services) || services[kind].serve == nil {
		return nil
	}
	return &services[kind]
}

// from prepares requests without a payload that name no shard which must exist.
func from(origin func(*call) *wire.Origin) func(*call, int) error {
	return func(c *call, n int) error {
		c.origin = origin(c)
		return c.checkSize(n, 0)
	}
}

// fromShard prepares requests without a payload that name a shard.
func fromShard(origin func(*call) *wire.Origin) func(*call, int) error {
	return func(c *call, n int) (err error) {
		c.origin = origin(c)
		if c.entry, err = c.s.find(c.origin); err != nil {
			return err
		}
		return c.checkSize(n, 0)
	}
}

// sized prepares requests of other servers, whose payload has a size that the head tells.
func sized(size func(*call) (uint64, error)) func(*call, int) error {
	return func(c *call, n int) error {
		want, err := size(c)
		if err != nil {
			return err
		}
		return c.checkSize(n, want)
	}
}

// acks serves requests whose answer is an Ack.
func acks(do func(*call, context.Context) error) func(*call, context.Context) error {
	return func(c *call, ctx context.Context) error {
		if err := do(c, ctx); err != nil {
			return err
		}
		return c.answerAck()
	}
}

// prepareInit checks the head of an InitShard. It has the value, or none for zeros.
func (c *call) prepareInit(n int) error {
	m := &c.init
	c.origin = &m.Origin
	if m.Zeros {
		return c.checkSize(n, 0)
	}
	return c.checkSize(n, 4*min(m.Length, shard.MaxLength))
}

// prepareWriteState checks the head of a WriteState.
func (c *call) prepareWriteState(n int) error {
	m := &c.writeState
	c.origin = &m.Init.Origin
	if len(m.Slots) > maxSlots {
		return refuse(wire.CodeSize, "write state: got %d slots, want at most %d", len(m.Slots), maxSlots)
	}
	return c.checkSize(n, 4*min(m.Init.Length, shard.MaxLength)*uint64(1+len(m.Slots)))
}

// prepare decodes the head and checks all that can be checked before memory is allocated for a
// payload of n bytes. A peer that has proved nothing but its secret may say any n; so quotas are
// taken here, too, and a request beyond them is refused while its payload is still in the socket.
func (c *call) prepare(r *transport.Request, n int) error {
	x := serviceOf(r.Kind)
	if x == nil {
		return refuse(wire.CodeUnsupported, "got a %v, which servers do not answer", r.Kind)
	}
	if x.from == otherServers && r.Peer != "" && r.Peer != identity.Server {
		return refuse(wire.CodeUnauthorised, "a %s may not ask for a %v", r.Peer, r.Kind)
	}
	if err := wire.DecodeHead(x.head(c), r.Head); err != nil {
		return err
	}
	c.kind = r.Kind
	return x.prepare(c, n)
}

// serve makes the answer of a call that was prepared.
func (c *call) serve(ctx context.Context) error {
	x := serviceOf(c.kind)
	if x.from != otherServers {
		if err := c.s.admit(ctx, c, x.from); err != nil {
			return err
		}
	}
	return x.serve(c, ctx)
}
