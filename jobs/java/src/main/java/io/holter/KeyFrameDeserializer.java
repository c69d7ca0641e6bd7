package io.holter;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.connector.kafka.source.reader.deserializer.KafkaRecordDeserializationSchema;
import org.apache.flink.kafka.shaded.org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.flink.types.Row;
import org.apache.flink.util.Collector;

/**
 * Turns every Kafka record into {@code Row(String key, byte[] frame)}, so that Flink can key the stream in Java and hand
 * Python one byte array. The frame, big endian:
 *
 * <pre>
 * u8 flags | u8 topic length | u16 key length | i32 partition | i64 offset | i64 timestamp | i32 value length
 * | topic | key | value
 * </pre>
 *
 * Never throws. A record that no operator may see keeps its position and gets a flag; its row key is "" when it has no
 * usable key. Keys are cut at {@value #MAX_FRAMED_KEY_BYTES} bytes, values at the constructor's limit; the value length
 * is the one before the cut.
 */
public final class KeyFrameDeserializer implements KafkaRecordDeserializationSchema<Row> {
    public static final int KEY_MISSING = 1;
    public static final int VALUE_MISSING = 2;
    public static final int KEY_NOT_UTF8 = 4;
    public static final int KEY_TOO_LONG = 8;
    public static final int VALUE_TOO_LONG = 16;

    public static final int MAX_KEY_BYTES = 200;
    public static final int MAX_FRAMED_KEY_BYTES = 1024;

    private static final long serialVersionUID = 1L;
    private static final byte[] NOTHING = new byte[0];
    private static final int HEAD_BYTES = 1 + 1 + 2 + 4 + 8 + 8 + 4;

    private final int maxValueBytes;

    public KeyFrameDeserializer(int maxValueBytes) {
        this.maxValueBytes = maxValueBytes;
    }

    @Override
    public void deserialize(ConsumerRecord<byte[], byte[]> record, Collector<Row> out) {
        byte[] keyBytes = record.key();
        String key = keyBytes == null ? "" : new String(keyBytes, StandardCharsets.UTF_8);
        int flags = keyFlags(keyBytes, key) | valueFlags(record.value());
        boolean usableKey = (flags & (KEY_MISSING | KEY_NOT_UTF8 | KEY_TOO_LONG)) == 0;
        out.collect(Row.of(usableKey ? key : "", frame(record, flags)));
    }

    private static int keyFlags(byte[] keyBytes, String key) {
        if (keyBytes == null || keyBytes.length == 0) {
            return KEY_MISSING;
        }
        if (keyBytes.length > MAX_KEY_BYTES) {
            return KEY_TOO_LONG;
        }
        // Malformed input decodes to replacement characters, which encode to other bytes.
        return Arrays.equals(key.getBytes(StandardCharsets.UTF_8), keyBytes) ? 0 : KEY_NOT_UTF8;
    }

    private int valueFlags(byte[] value) {
        if (value == null) {
            return VALUE_MISSING;
        }
        return value.length > maxValueBytes ? VALUE_TOO_LONG : 0;
    }

    private byte[] frame(ConsumerRecord<byte[], byte[]> record, int flags) {
        byte[] topic = record.topic().getBytes(StandardCharsets.UTF_8);
        byte[] key = record.key() == null ? NOTHING : record.key();
        byte[] value = record.value() == null ? NOTHING : record.value();
        int keyLength = Math.min(key.length, MAX_FRAMED_KEY_BYTES);
        int valueLength = Math.min(value.length, maxValueBytes);
        return ByteBuffer.allocate(HEAD_BYTES + topic.length + keyLength + valueLength)
                .put((byte) flags)
                .put((byte) topic.length)
                .putShort((short) keyLength)
                .putInt(record.partition())
                .putLong(record.offset())
                .putLong(record.timestamp())
                .putInt(value.length)
                .put(topic)
                .put(key, 0, keyLength)
                .put(value, 0, valueLength)
                .array();
    }

    @Override
    public TypeInformation<Row> getProducedType() {
        return Types.ROW(Types.STRING, PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO);
    }
}
