package io.holter;

import java.io.ByteArrayOutputStream;
import java.util.LinkedHashMap;
import java.util.Map;

import org.apache.flink.api.common.eventtime.Watermark;
import org.apache.flink.api.connector.source.ReaderOutput;
import org.apache.flink.api.connector.source.SourceOutput;
import org.apache.flink.types.Row;

/**
 * Where a reader's rows wait for each other: the frames of one key, in order, each after its length as an i32. Event
 * times and watermarks are not kept, the jobs use neither.
 */
final class GatheredFrames implements ReaderOutput<Row> {
    private final Map<String, ByteArrayOutputStream> framesByKey = new LinkedHashMap<>();
    private int numRecords;
    private int numBytes;

    int numRecords() {
        return numRecords;
    }

    int numBytes() {
        return numBytes;
    }

    /** Hands everything on, the key that came first before the others. */
    void emit(ReaderOutput<Row> output) {
        if (numRecords == 0) {
            return;
        }
        framesByKey.forEach((key, frames) -> output.collect(Row.of(key, frames.toByteArray())));
        framesByKey.clear();
        numRecords = 0;
        numBytes = 0;
    }

    @Override
    public void collect(Row row) {
        byte[] frame = (byte[]) row.getField(1);
        ByteArrayOutputStream frames =
                framesByKey.computeIfAbsent((String) row.getField(0), key -> new ByteArrayOutputStream(512));
        writeLength(frames, frame.length);
        frames.write(frame, 0, frame.length);
        numRecords++;
        numBytes += frame.length;
    }

    private static void writeLength(ByteArrayOutputStream frames, int length) {
        frames.write(length >>> 24);
        frames.write(length >>> 16);
        frames.write(length >>> 8);
        frames.write(length);
    }

    @Override
    public void collect(Row row, long timestamp) {
        collect(row);
    }

    @Override
    public SourceOutput<Row> createOutputForSplit(String splitId) {
        return this;
    }

    @Override
    public void releaseOutputForSplit(String splitId) {}

    @Override
    public void emitWatermark(Watermark watermark) {}

    @Override
    public void markIdle() {}

    @Override
    public void markActive() {}
}
