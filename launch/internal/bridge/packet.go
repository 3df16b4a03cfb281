package bridge

// protocol is the version of the packets. Another one is refused by join.
const protocol = 1

// Kinds of packets.
const (
	kindJSON     = 'J'
	kindNote     = 'N'
	kindExchange = 'X'
	kindAnswer   = 'x'
)

// Heads of packets of JSON.
const (
	headJSON = string(kindJSON)
	headNote = string(kindNote)
)

// maxPacket is the most bytes of a packet.
const maxPacket = 64 << 10

// helloNote is the first packet.
type helloNote struct {
	Note     string `json:"note"`
	Protocol int    `json:"protocol"`
	Release  string `json:"release"`
	PID      int    `json:"pid"`
}

// failedNote says that something failed for which Python awaits no answer: an exchange, or the
// session, where Number is 0.
type failedNote struct {
	Note   string     `json:"note"`
	Number uint64     `json:"number"`
	Error  *errorText `json:"error"`
}

// request is the head of each request. The other fields are its arguments.
type request struct {
	ID uint64 `json:"id"`
	Op string `json:"op"`
}

// answer is the answer of a request: Result or Error.
type answer struct {
	ID     uint64     `json:"id"`
	Result any        `json:"result,omitempty"`
	Error  *errorText `json:"error,omitempty"`
}

// withFile is a result that comes with a file's descriptor.
type withFile struct {
	result any
	fd     int
	// of keeps the file open.
	of any
}

// movedNote says that a slot has new memory: so many bytes at an offset of the region.
type movedNote struct {
	Note   string `json:"note"`
	Region uint32 `json:"region"`
	Offset uint64 `json:"offset"`
	Bytes  uint64 `json:"bytes"`
}
