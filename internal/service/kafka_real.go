package service

import (
	"context"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// brokerStart bounds the wait for a broker that neither ends nor answers.
	brokerStart = 2 * time.Minute
	// brokerStop is what a broker gets to shut down before it is killed.
	brokerStop = 20 * time.Second
)

//go:embed kafka_log4j2.xml
var log4j2 []byte

// startRealKafka runs Apache Kafka, broker and controller in one JVM, as a child of this process.
func startRealKafka(ctx context.Context, s spec) (report, func() error, error) {
	java, err := exec.LookPath("java")
	if err != nil {
		return report{}, nil, fmt.Errorf("a real Kafka needs Java 17 or newer on PATH (on Debian the package openjdk-17-jre-headless), or use the embedded Kafka: %w", err)
	}
	jars, err := kafkaJars(ctx, s)
	if err != nil {
		return report{}, nil, err
	}
	ports, err := writeProperties(s)
	if err != nil {
		return report{}, nil, err
	}
	log, err := os.OpenFile(s.path("broker.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return report{}, nil, err
	}
	defer log.Close()
	if !exists(s.path("data/meta.properties")) {
		id, err := uuid.NewV7() // starts with the time: a random one may start with a dash, which reads as an option
		if err != nil {
			return report{}, nil, err
		}
		format := jvm(exec.CommandContext(ctx, java), s, jars, "-Xmx128m", "kafka.tools.StorageTool",
			"format", "-t", base64.RawURLEncoding.EncodeToString(id[:]), "-c", s.path("server.properties"))
		if output, err := format.CombinedOutput(); err != nil {
			return report{}, nil, fmt.Errorf("format Kafka's storage: %w\n%s", err, output)
		}
	}

	broker := jvm(exec.Command(java), s, jars, "-Xmx512m", "kafka.Kafka", s.path("server.properties"))
	broker.Stdout, broker.Stderr = log, log
	if err := broker.Start(); err != nil {
		return report{}, nil, err
	}
	ended := make(chan struct{})
	go func() {
		_ = broker.Wait() // the log says more than the exit status
		close(ended)
	}()
	stop := func() error {
		_ = terminate(broker.Process)
		select {
		case <-ended:
			return nil
		case <-time.After(brokerStop):
		}
		err := broker.Process.Kill()
		<-ended
		return err
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[0]))
	if err := awaitBroker(ctx, address, ended); err != nil {
		return report{}, nil, fmt.Errorf("%w%s", errors.Join(err, stop()), quoteTail(s.path("broker.log")))
	}
	return report{
		Address: address,
		Source:  fmt.Sprintf("Apache Kafka %s from %s", kafkaVersion, jars),
		PID:     broker.Process.Pid,
	}, stop, nil
}

// jvm completes a command that runs a class of Kafka and dies with this process.
func jvm(cmd *exec.Cmd, s spec, jars string, heap string, args ...string) *exec.Cmd {
	cmd.Args = append(cmd.Args,
		heap,
		"-Djava.awt.headless=true",
		"-Dlog4j2.configurationFile="+s.path("log4j2.xml"),
		"-cp", filepath.Join(jars, "*"))
	cmd.Args = append(cmd.Args, args...)
	cmd.SysProcAttr = boundToSupervisor()
	return cmd
}

// writeProperties writes the broker's configuration and returns the ports of broker and controller.
func writeProperties(s spec) ([2]int, error) {
	var ports [2]int
	for i, file := range []string{"port", "controller-port"} {
		port, err := pickPort(s.path(file))
		if err != nil {
			return ports, err
		}
		ports[i] = port
		if err := keepPort(s.path(file), port); err != nil {
			return ports, err
		}
	}
	broker := fmt.Sprintf("PLAINTEXT://127.0.0.1:%d", ports[0])
	controller := fmt.Sprintf("127.0.0.1:%d", ports[1])
	properties := map[string]string{
		// A killed broker is only admitted again once its old session is over: with Kafka's default after nine seconds.
		"broker.heartbeat.interval.ms": "1000",
		"broker.session.timeout.ms":    "4000",

		"process.roles":                                    "broker,controller",
		"node.id":                                          "1",
		"controller.quorum.voters":                         "1@" + controller,
		"controller.listener.names":                        "CONTROLLER",
		"listeners":                                        broker + ",CONTROLLER://" + controller,
		"advertised.listeners":                             broker,
		"inter.broker.listener.name":                       "PLAINTEXT",
		"listener.security.protocol.map":                   "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
		"log.dirs":                                         s.path("data"),
		"num.partitions":                                   strconv.Itoa(defaultPartitions),
		"auto.create.topics.enable":                        "true",
		"group.initial.rebalance.delay.ms":                 "0",
		"offsets.topic.num.partitions":                     "4",
		"offsets.topic.replication.factor":                 "1",
		"transaction.state.log.num.partitions":             "4",
		"transaction.state.log.replication.factor":         "1",
		"transaction.state.log.min.isr":                    "1",
		"share.coordinator.state.topic.num.partitions":     "1",
		"share.coordinator.state.topic.replication.factor": "1",
		"share.coordinator.state.topic.min.isr":            "1",
	}
	maps.Copy(properties, s.Settings)
	var lines strings.Builder
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		fmt.Fprintf(&lines, "%s=%s\n", name, strings.ReplaceAll(properties[name], `\`, `\\`))
	}
	return ports, errors.Join(
		os.WriteFile(s.path("server.properties"), []byte(lines.String()), 0o644),
		os.WriteFile(s.path("log4j2.xml"), log4j2, 0o644),
	)
}

// awaitBroker waits until a client is told about the broker, which follows its registration with the controller.
func awaitBroker(ctx context.Context, address string, ended <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, brokerStart)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(address))
	if err != nil {
		return err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	for {
		attempt, done := context.WithTimeout(ctx, time.Second)
		metadata, err := admin.BrokerMetadata(attempt)
		done()
		if err == nil && len(metadata.Brokers) > 0 {
			return nil
		}
		select {
		case <-ended:
			return errors.New("Kafka ended while starting")
		case <-ctx.Done():
			return fmt.Errorf("wait for Kafka's metadata: %w", errors.Join(ctx.Err(), err))
		case <-time.After(50 * time.Millisecond):
		}
	}
}
