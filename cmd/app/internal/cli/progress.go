package cli

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
)

// quietInterval is how often progress is reported where no person watches.
const quietInterval = 5 * time.Second

// progress shows how far a long command is: a bar on a terminal, else a line now and then. Safe for concurrent use.
type progress struct {
	w   io.Writer
	tty bool

	mu    sync.Mutex
	stage string
	bar   *progressbar.ProgressBar
	last  time.Time
}

func newProgress(w io.Writer) *progress {
	return &progress{w: w, tty: terminal(w), last: time.Now()}
}

// at reports how much of a stage is done.
func (p *progress) at(stage string, done, total int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.tty {
		if now := time.Now(); now.Sub(p.last) >= quietInterval {
			p.last = now
			_, _ = fmt.Fprintf(p.w, "%s: %d of %d\n", stage, done, total)
		}
		return
	}
	if p.bar == nil || p.stage != stage {
		p.clear()
		p.stage = stage
		p.bar = progressbar.NewOptions(total, progressbar.OptionSetWriter(p.w), progressbar.OptionSetDescription(stage),
			progressbar.OptionThrottle(65*time.Millisecond), progressbar.OptionShowCount(), progressbar.OptionClearOnFinish())
	}
	p.bar.ChangeMax(total)
	_ = p.bar.Set(done) // a bar that can not be drawn is no reason to stop
}

// say writes a line above the bar.
func (p *progress) say(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	_, _ = fmt.Fprintf(p.w, format+"\n", args...)
}

// finish removes the bar.
func (p *progress) finish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
}

func (p *progress) clear() {
	if p.bar != nil {
		_ = p.bar.Clear()
		p.bar = nil
	}
}
