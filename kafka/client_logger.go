package kafka

import (
	"errors"
	"fmt"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/twmb/franz-go/pkg/kgo"
)

// clientLogger passes franz-go's messages on. Its warnings are mostly about connections it opens again by itself, so
// they are Debug here; what the package can not mend comes back as an error to the caller.
type clientLogger struct{ logger watermill.LoggerAdapter }

func (clientLogger) Level() kgo.LogLevel { return kgo.LogLevelInfo }

func (l clientLogger) Log(level kgo.LogLevel, text string, keyvals ...any) {
	fields := watermill.LogFields{}
	for i := 0; i+1 < len(keyvals); i += 2 {
		fields[fmt.Sprint(keyvals[i])] = keyvals[i+1]
	}
	if level == kgo.LogLevelError {
		l.logger.Error("Kafka client", errors.New(text), fields)
		return
	}
	l.logger.Debug("Kafka client: "+text, fields)
}
