package service

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"strconv"

	"github.com/twmb/franz-go/pkg/kfake"
)

// defaultPartitions is how many partitions a topic gets that nobody created with a number.
const defaultPartitions = 6

// startEmbeddedKafka runs the embedded broker in this process.
func startEmbeddedKafka(s spec) (report, func() error, error) {
	partitions := defaultPartitions
	settings := maps.Clone(s.Settings)
	if asked, set := settings["num.partitions"]; set {
		number, err := strconv.Atoi(asked)
		if err != nil {
			return report{}, nil, fmt.Errorf("num.partitions: %w", err)
		}
		partitions = number
		delete(settings, "num.partitions")
	}
	log, err := os.OpenFile(s.path("broker.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return report{}, nil, err
	}
	port, err := pickPort(s.path("port"))
	if err != nil {
		return report{}, nil, errors.Join(err, log.Close())
	}
	cluster, err := kfake.NewCluster(
		kfake.Ports(port),
		kfake.DataDir(s.path("data")),
		kfake.DefaultNumPartitions(partitions),
		kfake.AllowAutoTopicCreation(),
		kfake.BrokerConfigs(settings),
		kfake.WithLogger(kfake.BasicLogger(log, kfake.LogLevelWarn)),
	)
	if err != nil {
		return report{}, nil, errors.Join(err, log.Close())
	}
	stop := func() error {
		cluster.Close()
		return log.Close()
	}
	if err := keepPort(s.path("port"), port); err != nil {
		return report{}, nil, errors.Join(err, stop())
	}
	return report{
		Address: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)),
		Source:  "embedded Kafka (a fake broker: no figure of throughput or durability may come from it)",
		PID:     os.Getpid(),
	}, stop, nil
}
