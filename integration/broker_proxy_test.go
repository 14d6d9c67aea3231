package integration_test

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// proxy stands between clients and a single broker. It speaks enough of Kafka's protocol to put its own address in place
// of the broker's, and so stays in between whatever broker there is.
type proxy struct {
	address  string
	upstream string
	host     string
	port     int32
	listener net.Listener
	working  sync.WaitGroup

	mutex     sync.Mutex
	open      *sync.Cond
	frozen    bool
	closed    bool
	conns     map[net.Conn]bool
	seen      map[kmsg.Key]int
	onRequest func(key kmsg.Key, n int) verdict
}

// verdict is what the proxy does with a request.
type verdict int

const (
	pass   verdict = iota
	refuse         // answered with an error, which the broker knows nothing of
	hold           // passed on, but from now on no answer goes back on any connection
)

// newProxy serves until the test ends. onRequest is asked about each request, n being how many of its kind there were
// before; nil passes all.
func newProxy(t *testing.T, brokers []string, onRequest func(key kmsg.Key, n int) verdict) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{
		address: listener.Addr().String(), upstream: brokers[0], host: "127.0.0.1",
		port:     int32(listener.Addr().(*net.TCPAddr).Port),
		listener: listener, conns: map[net.Conn]bool{}, seen: map[kmsg.Key]int{}, onRequest: onRequest,
	}
	p.open = sync.NewCond(&p.mutex)
	p.working.Go(p.serve)
	t.Cleanup(func() {
		_ = p.listener.Close()
		p.mutex.Lock()
		p.closed = true
		p.open.Broadcast()
		p.mutex.Unlock()
		p.cut()
		p.working.Wait()
	})
	return p
}

func (p *proxy) brokers() []string { return []string{p.address} }

// freeze holds every answer back until thaw. What is sent still reaches the broker.
func (p *proxy) freeze() { p.setFrozen(true) }
func (p *proxy) thaw()   { p.setFrozen(false) }

func (p *proxy) setFrozen(frozen bool) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.frozen = frozen
	p.open.Broadcast()
}

func (p *proxy) isFrozen() bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.frozen
}

// cut breaks every connection: answers held back are lost.
func (p *proxy) cut() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for conn := range p.conns {
		_ = conn.Close()
	}
}

// requests is how many of the kind there were.
func (p *proxy) requests(key kmsg.Key) int {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.seen[key]
}

func (p *proxy) serve() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		broker, err := net.Dial("tcp", p.upstream)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mutex.Lock()
		p.conns[client], p.conns[broker] = true, true
		closed := p.closed
		p.mutex.Unlock()
		if closed {
			p.cut()
		}
		l := &link{proxy: p, client: client, broker: broker, asked: map[int32]asked{}}
		p.working.Go(func() { l.pump(l.request) })
		p.working.Go(func() { l.pump(l.response) })
	}
}

// link is one client's connection.
type link struct {
	proxy          *proxy
	client, broker net.Conn
	writing        sync.Mutex
	mutex          sync.Mutex
	asked          map[int32]asked // by correlation id
}

type asked struct{ key, version int16 }

// pump moves frames one way until either end closes.
func (l *link) pump(move func() error) {
	for move() == nil {
	}
	_ = l.client.Close()
	_ = l.broker.Close()
	l.proxy.mutex.Lock()
	defer l.proxy.mutex.Unlock()
	delete(l.proxy.conns, l.client)
	delete(l.proxy.conns, l.broker)
}

func (l *link) request() error {
	frame, err := readFrame(l.client)
	if err != nil {
		return err
	}
	a := asked{int16(binary.BigEndian.Uint16(frame)), int16(binary.BigEndian.Uint16(frame[2:]))}
	id := int32(binary.BigEndian.Uint32(frame[4:]))
	l.mutex.Lock()
	l.asked[id] = a
	l.mutex.Unlock()
	switch l.proxy.judge(kmsg.Key(a.key)) {
	case refuse:
		return l.refuse(a, id, frame)
	case hold:
		l.proxy.freeze()
	case pass:
	}
	return writeFrame(l.broker, frame)
}

func (p *proxy) judge(key kmsg.Key) verdict {
	p.mutex.Lock()
	n := p.seen[key]
	p.seen[key]++
	p.mutex.Unlock()
	if p.onRequest == nil {
		return pass
	}
	return p.onRequest(key, n)
}

// refuse answers a produce request with an error that no client tries again by itself.
func (l *link) refuse(a asked, id int32, frame []byte) error {
	req := kmsg.RequestForKey(a.key)
	req.SetVersion(a.version)
	name := max(int(int16(binary.BigEndian.Uint16(frame[8:]))), 0)
	body := frame[10+name:]
	if req.IsFlexible() {
		body = body[1:] // no tags
	}
	if err := req.ReadFrom(body); err != nil {
		return err
	}
	produce, ok := req.(*kmsg.ProduceRequest)
	if !ok {
		return errors.New("only produce requests can be refused")
	}
	resp := req.ResponseKind().(*kmsg.ProduceResponse)
	for _, topic := range produce.Topics {
		t := kmsg.NewProduceResponseTopic()
		t.Topic, t.TopicID = topic.Topic, topic.TopicID
		for _, partition := range topic.Partitions {
			one := kmsg.NewProduceResponseTopicPartition()
			one.Partition, one.ErrorCode = partition.Partition, kerr.UnknownServerError.Code
			t.Partitions = append(t.Partitions, one)
		}
		resp.Topics = append(resp.Topics, t)
	}
	return l.answer(resp, id)
}

func (l *link) response() error {
	frame, err := readFrame(l.broker)
	if err != nil {
		return err
	}
	id := int32(binary.BigEndian.Uint32(frame))
	l.mutex.Lock()
	a := l.asked[id]
	delete(l.asked, id)
	l.mutex.Unlock()
	if err := l.proxy.wait(); err != nil {
		return err
	}
	resp := kmsg.ResponseForKey(a.key)
	switch resp.(type) {
	case *kmsg.MetadataResponse, *kmsg.FindCoordinatorResponse:
	default:
		l.writing.Lock()
		defer l.writing.Unlock()
		return writeFrame(l.client, frame)
	}
	resp.SetVersion(a.version)
	body := frame[4:]
	if resp.IsFlexible() {
		body = body[1:]
	}
	if err := resp.ReadFrom(body); err != nil {
		return err
	}
	l.proxy.redirect(resp)
	return l.answer(resp, id)
}

// wait returns when answers may pass.
func (p *proxy) wait() error {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for p.frozen && !p.closed {
		p.open.Wait()
	}
	if p.closed {
		return net.ErrClosed
	}
	return nil
}

func (p *proxy) redirect(resp kmsg.Response) {
	switch r := resp.(type) {
	case *kmsg.MetadataResponse:
		for i := range r.Brokers {
			r.Brokers[i].Host, r.Brokers[i].Port = p.host, p.port
		}
	case *kmsg.FindCoordinatorResponse:
		r.Host, r.Port = p.host, p.port
		for i := range r.Coordinators {
			r.Coordinators[i].Host, r.Coordinators[i].Port = p.host, p.port
		}
	}
}

func (l *link) answer(resp kmsg.Response, id int32) error {
	frame := binary.BigEndian.AppendUint32(nil, uint32(id))
	if resp.IsFlexible() {
		frame = append(frame, 0)
	}
	l.writing.Lock()
	defer l.writing.Unlock()
	return writeFrame(l.client, resp.AppendTo(frame))
}

func readFrame(from io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(from, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n < 4 || n > 100<<20 {
		return nil, errors.New("a frame of " + strconv.Itoa(int(n)) + " bytes")
	}
	frame := make([]byte, n)
	_, err := io.ReadFull(from, frame)
	return frame, err
}

func writeFrame(to io.Writer, frame []byte) error {
	_, err := to.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...))
	return err
}
