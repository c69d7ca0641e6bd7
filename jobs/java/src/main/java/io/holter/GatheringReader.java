package io.holter;

import java.util.Collection;
import java.util.List;
import java.util.concurrent.CompletableFuture;

import org.apache.flink.api.connector.source.ReaderOutput;
import org.apache.flink.api.connector.source.SourceEvent;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceSplit;
import org.apache.flink.core.io.InputStatus;
import org.apache.flink.types.Row;

/**
 * Takes what has arrived, up to a limit, and emits it as one row a key. A call from Java to Python costs more than most
 * records do, so under a backlog many share one; a record that comes alone leaves at once, alone.
 *
 * <p>Nothing is kept between two calls of {@link #pollNext}: barriers come in between, and the offsets in a snapshot are
 * those of rows already emitted.
 */
final class GatheringReader<SplitT extends SourceSplit> implements SourceReader<Row, SplitT> {
    /** About 10 ms of work: the longest that a barrier or a timer waits for. */
    static final int MAX_RECORDS = 512;
    static final int MAX_BYTES = 1 << 20;

    private final SourceReader<Row, SplitT> reader;
    private final GatheredFrames gathered = new GatheredFrames();

    GatheringReader(SourceReader<Row, SplitT> reader) {
        this.reader = reader;
    }

    @Override
    public InputStatus pollNext(ReaderOutput<Row> output) throws Exception {
        InputStatus status;
        do {
            status = reader.pollNext(gathered);
        } while (status == InputStatus.MORE_AVAILABLE
                && gathered.numRecords() < MAX_RECORDS
                && gathered.numBytes() < MAX_BYTES);
        gathered.emit(output);
        return status;
    }

    @Override
    public void start() {
        reader.start();
    }

    @Override
    public List<SplitT> snapshotState(long checkpointId) {
        return reader.snapshotState(checkpointId);
    }

    @Override
    public CompletableFuture<Void> isAvailable() {
        return reader.isAvailable();
    }

    @Override
    public void addSplits(List<SplitT> splits) {
        reader.addSplits(splits);
    }

    @Override
    public void notifyNoMoreSplits() {
        reader.notifyNoMoreSplits();
    }

    @Override
    public void handleSourceEvents(SourceEvent event) {
        reader.handleSourceEvents(event);
    }

    @Override
    public void notifyCheckpointComplete(long checkpointId) throws Exception {
        reader.notifyCheckpointComplete(checkpointId);
    }

    @Override
    public void notifyCheckpointAborted(long checkpointId) throws Exception {
        reader.notifyCheckpointAborted(checkpointId);
    }

    @Override
    public void pauseOrResumeSplits(Collection<String> splitsToPause, Collection<String> splitsToResume) {
        reader.pauseOrResumeSplits(splitsToPause, splitsToResume);
    }

    @Override
    public void close() throws Exception {
        reader.close();
    }
}
