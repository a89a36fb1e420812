import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HexFormat;

import org.apache.flink.api.common.eventtime.IndexedCombinedWatermarkStatus;
import org.apache.flink.api.common.typeutils.base.LongSerializer;
import org.apache.flink.core.memory.DataInputDeserializer;
import org.apache.flink.core.memory.DataOutputSerializer;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.streaming.runtime.io.PushingAsyncDataInput.DataOutput;
import org.apache.flink.streaming.runtime.streamrecord.LatencyMarker;
import org.apache.flink.streaming.runtime.streamrecord.RecordAttributes;
import org.apache.flink.streaming.runtime.streamrecord.StreamElement;
import org.apache.flink.streaming.runtime.streamrecord.StreamElementSerializer;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.streaming.runtime.watermarkstatus.StatusWatermarkValve;
import org.apache.flink.streaming.runtime.watermarkstatus.WatermarkStatus;

/**
 * Flink's own classes for what stands between records. One command a line on stdin, one line of
 * answers each:
 *
 * <pre>
 * element HEX            an element, read and written again: "what it is|hex"
 * valve N, combined N    a new one for N channels
 * watermark CH TS, status CH idle|active      to it: what it lets through
 * </pre>
 */
public class FlinkElements implements DataOutput<Long> {

    private final StringBuilder told = new StringBuilder();

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        FlinkElements output = new FlinkElements();
        StatusWatermarkValve valve = null;
        IndexedCombinedWatermarkStatus combined = null;
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            output.told.setLength(0);
            switch (words[0]) {
                case "element":
                    output.told.append(reread(words[1]));
                    break;
                case "valve":
                    valve = new StatusWatermarkValve(Integer.parseInt(words[1]));
                    combined = null;
                    break;
                case "combined":
                    combined = IndexedCombinedWatermarkStatus.forInputsCount(Integer.parseInt(words[1]));
                    valve = null;
                    break;
                case "watermark":
                    int channel = Integer.parseInt(words[1]);
                    long timestamp = Long.parseLong(words[2]);
                    if (valve != null) {
                        valve.inputWatermark(new Watermark(timestamp), channel, output);
                    } else {
                        boolean isNew = combined.updateWatermark(channel, timestamp);
                        output.tell(isNew, combined);
                    }
                    break;
                case "status":
                    boolean isIdle = words[2].equals("idle");
                    int from = Integer.parseInt(words[1]);
                    if (valve != null) {
                        WatermarkStatus status = isIdle ? WatermarkStatus.IDLE : WatermarkStatus.ACTIVE;
                        valve.inputWatermarkStatus(status, from, output);
                    } else {
                        output.tell(combined.updateStatus(from, isIdle), combined);
                    }
                    break;
                default:
                    throw new IllegalArgumentException(line);
            }
            System.out.println(output.told.toString().trim());
        }
    }

    private static String reread(String hex) throws Exception {
        StreamElementSerializer<Long> serializer =
                new StreamElementSerializer<>(LongSerializer.INSTANCE);
        byte[] bytes = HexFormat.of().parseHex(hex);
        StreamElement element = serializer.deserialize(new DataInputDeserializer(bytes));
        DataOutputSerializer out = new DataOutputSerializer(64);
        serializer.serialize(element, out);
        return what(element) + "|" + HexFormat.of().formatHex(out.getCopyOfBuffer());
    }

    private static String what(StreamElement element) {
        if (element.isRecord()) {
            StreamRecord<Long> record = element.asRecord();
            return "record " + record.getValue() + (record.hasTimestamp() ? " at " + record.getTimestamp() : "");
        }
        if (element.isWatermark()) {
            return "watermark " + element.asWatermark().getTimestamp();
        }
        if (element.isLatencyMarker()) {
            LatencyMarker marker = element.asLatencyMarker();
            return "marker " + marker.getMarkedTime() + " " + marker.getOperatorId() + " " + marker.getSubtaskIndex();
        }
        return element.asWatermarkStatus().isIdle() ? "idle" : "active";
    }

    private void tell(boolean isNew, IndexedCombinedWatermarkStatus combined) {
        told.append(isNew ? "watermark " + combined.getCombinedWatermark() + " " : "");
        told.append(combined.isIdle() ? "idle" : "active");
    }

    @Override
    public void emitRecord(StreamRecord<Long> record) {}

    @Override
    public void emitWatermark(Watermark watermark) {
        told.append("watermark ").append(watermark.getTimestamp()).append(' ');
    }

    @Override
    public void emitWatermarkStatus(WatermarkStatus status) {
        told.append(status.isIdle() ? "idle " : "active ");
    }

    @Override
    public void emitLatencyMarker(LatencyMarker marker) {}

    @Override
    public void emitRecordAttributes(RecordAttributes attributes) {}

    @Override
    public void emitWatermark(org.apache.flink.runtime.event.WatermarkEvent event) {}
}
