package io.holter;

import java.util.Arrays;

import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.kafka.shaded.org.apache.kafka.clients.producer.ProducerRecord;

/**
 * Turns the flat frame {@code u8 topic index | u8 key length | key | value} into a Kafka record for
 * {@code topics[topic index]}. The key picks the partition.
 */
public final class FrameSerializer implements KafkaRecordSerializationSchema<byte[]> {
    private static final long serialVersionUID = 1L;
    private static final int HEADER_BYTES = 2;

    private final String[] topics;

    public FrameSerializer(String[] topics) {
        this.topics = topics.clone();
    }

    @Override
    public ProducerRecord<byte[], byte[]> serialize(byte[] frame, KafkaSinkContext context, Long timestamp) {
        String topic = topics[Byte.toUnsignedInt(frame[0])];
        int keyEnd = HEADER_BYTES + Byte.toUnsignedInt(frame[1]);
        byte[] key = Arrays.copyOfRange(frame, HEADER_BYTES, keyEnd);
        byte[] value = Arrays.copyOfRange(frame, keyEnd, frame.length);
        // The timestamp is the time of sending: the source record's may be too old for the topic's retention.
        return new ProducerRecord<>(topic, null, (Long) null, key, value);
    }
}
