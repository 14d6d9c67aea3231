package doctor_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace-go/millrace/cmd/app/internal/doctor"
)

// cluster is an embedded cluster of the test's own, and a patient of nothing but that.
func cluster(t *testing.T, options ...kfake.Opt) (*kfake.Cluster, *patient) {
	t.Helper()
	c, err := kfake.NewCluster(options...)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	client, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.RetryTimeout(time.Second))
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return c, &patient{t: t, services: doctor.Services{Kafka: client, DatabaseError: errors.New("PostgreSQL is unreachable")}}
}

func TestReplicationIsJudgedByWhatOneLostBrokerDoes(t *testing.T) {
	_, p := cluster(t, kfake.NumBrokers(3))
	admin := kadm.NewClient(p.services.Kafka)
	for _, c := range []struct {
		replicas             int16
		least                string
		replication, minimum doctor.Status
	}{
		{1, "1", doctor.Warning, doctor.OK},
		{2, "1", doctor.OK, doctor.OK},
		{2, "2", doctor.OK, doctor.Warning},
		{3, "1", doctor.OK, doctor.Warning},
		{3, "2", doctor.OK, doctor.OK},
		{3, "3", doctor.OK, doctor.Warning},
	} {
		topic := "r" + strconv.Itoa(int(c.replicas)) + "m" + c.least
		_, err := admin.CreateTopic(t.Context(), 1, c.replicas, map[string]*string{"min.insync.replicas": &c.least}, topic)
		require.NoError(t, err)
		p.config.Topics = []string{topic}
		checks := p.examine()
		require.Equal(t, c.replication, checks["topic.replication:"+topic].Status, topic)
		require.Equal(t, c.minimum, checks["topic.min_insync_replicas:"+topic].Status, topic)
	}
}

func TestTheRelaysLimitIsComparedWithTheTopics(t *testing.T) {
	_, p := cluster(t, kfake.SeedTopics(1, "orders"))
	p.config.Topics = []string{"orders"}
	const name = "topic.max_message_bytes:orders"
	require.Equal(t, doctor.OK, p.examine()[name].Status)
	p.config.Publisher.MaxMessageBytes = 1000
	checks := p.examine()
	require.Equal(t, doctor.OK, checks[name].Status)
	require.Contains(t, checks[name].Detail, "sends 1000 at most")
	p.config.Publisher.MaxMessageBytes = 2_000_000
	checks = p.examine()
	require.Equal(t, doctor.Failed, checks[name].Status)
	require.Contains(t, checks[name].Detail, "MILLRACE_KAFKA_MAX_MESSAGE_BYTES to 1048588")
}

// The embedded broker does not know the setting.
func TestTopicsThatMakeThemselvesAreWarnedOf(t *testing.T) {
	const name = "broker.auto_create_topics"
	c, p := cluster(t, kfake.NumBrokers(1))
	require.Equal(t, doctor.Skipped, p.examine()[name].Status)
	for _, told := range []struct {
		broker string
		relay  bool
		status doctor.Status
	}{{"false", false, doctor.OK}, {"false", true, doctor.Warning}, {"true", false, doctor.Warning}, {"true", true, doctor.Warning}} {
		c.ControlKey(int16(kmsg.DescribeConfigs), func(request kmsg.Request) (kmsg.Response, error, bool) {
			response := request.ResponseKind().(*kmsg.DescribeConfigsResponse)
			resource := kmsg.NewDescribeConfigsResponseResource()
			resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeBroker, "0"
			setting := kmsg.NewDescribeConfigsResponseResourceConfig()
			setting.Name, setting.Value = "auto.create.topics.enable", &told.broker
			resource.Configs = append(resource.Configs, setting)
			response.Resources = append(response.Resources, resource)
			return response, nil, true
		})
		p.config.Publisher.AllowAutoTopicCreation = told.relay
		require.Equal(t, told.status, p.examine()[name].Status, "%+v", told)
	}
}

func TestAUserWithoutRightsIsToldWhichOnes(t *testing.T) {
	c, p := cluster(t, kfake.SeedTopics(1, "orders"))
	p.config.Topics = []string{"orders"}
	c.ControlKey(int16(kmsg.InitProducerID), func(request kmsg.Request) (kmsg.Response, error, bool) {
		response := request.ResponseKind().(*kmsg.InitProducerIDResponse)
		response.ErrorCode = kerr.ClusterAuthorizationFailed.Code
		return response, nil, true
	})
	c.ControlKey(int16(kmsg.DescribeConfigs), func(request kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		response := request.ResponseKind().(*kmsg.DescribeConfigsResponse)
		for _, asked := range request.(*kmsg.DescribeConfigsRequest).Resources {
			resource := kmsg.NewDescribeConfigsResponseResource()
			resource.ResourceType, resource.ResourceName = asked.ResourceType, asked.ResourceName
			resource.ErrorCode = kerr.TopicAuthorizationFailed.Code
			response.Resources = append(response.Resources, resource)
		}
		return response, nil, true
	})
	checks := p.examine()
	require.Equal(t, doctor.Failed, checks["producer.idempotence"].Status)
	require.Equal(t, doctor.OK, checks["topic.exists:orders"].Status)
	require.Equal(t, doctor.Skipped, checks["topic.max_message_bytes:orders"].Status)
	require.Contains(t, checks["topic.max_message_bytes:orders"].Detail, "uthoriz")
}

func TestWhatDoesNotAnswerIsSkippedAndHidesNothing(t *testing.T) {
	c, p := cluster(t, kfake.SeedTopics(1, "orders"))
	p.config.Topics, p.config.Timeout = []string{"orders"}, 200*time.Millisecond
	released := make(chan struct{})
	c.ControlKey(int16(kmsg.InitProducerID), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		c.SleepControl(func() { <-released })
		return nil, nil, false
	})
	checks := p.examine()
	close(released)
	require.Equal(t, doctor.Skipped, checks["producer.idempotence"].Status)
	require.Equal(t, "no answer within 200ms", checks["producer.idempotence"].Detail)
	require.Equal(t, doctor.OK, checks["topic.exists:orders"].Status)
	require.Equal(t, doctor.Failed, checks["postgres.reachable"].Status)
	require.Equal(t, doctor.Skipped, checks["schema.version"].Status)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	list, err := doctor.Examine(ctx, p.services, p.config)
	require.NoError(t, err)
	for _, check := range list {
		require.NotEqual(t, doctor.Warning, check.Status, check.Name)
	}
}
